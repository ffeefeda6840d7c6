// Light and dark: as the system has it, until somebody chooses.
import { useEffect, useState } from "preact/hooks";

const KEY = "planner.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

export function theme(): "light" | "dark" {
  const chosen = localStorage.getItem(KEY);
  if (chosen === "light" || chosen === "dark") return chosen;
  return dark.matches ? "dark" : "light";
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = theme();
}

export function toggleTheme(): void {
  localStorage.setItem(KEY, theme() === "dark" ? "light" : "dark");
  applyTheme();
  dispatchEvent(new Event("planner-theme"));
}

dark.addEventListener("change", () => {
  applyTheme();
  dispatchEvent(new Event("planner-theme"));
});

/** Draws a view anew when the colours change. */
export function useTheme(): string {
  const [now, setNow] = useState(theme());
  useEffect(() => {
    const changed = () => setNow(theme());
    addEventListener("planner-theme", changed);
    return () => removeEventListener("planner-theme", changed);
  }, []);
  return now;
}

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The n-th colour for kinds of things. */
export function series(index: number): string {
  return colour(`c${index % 10}`);
}

const RAMPS = {
  light: ["#dfe7ee", "#9cc3dd", "#4f93c0", "#c9772b", "#a3231d"],
  dark: ["#2a3641", "#33607f", "#4a97c7", "#e09a4a", "#ff6f61"],
};

export function ramp(): string[] {
  return RAMPS[theme()];
}

/** A colour for a share between 0 and 1; small shares stay apart. */
export function shade(share: number): string {
  const stops = ramp();
  const place = Math.sqrt(Math.min(Math.max(share, 0), 1)) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  return mixed(stops[low]!, stops[low + 1]!, place - low);
}

function mixed(a: string, b: string, part: number): string {
  const channel = (text: string, at: number) => parseInt(text.slice(at, at + 2), 16);
  const parts = [1, 3, 5].map((at) => Math.round(channel(a, at) * (1 - part) + channel(b, at) * part));
  return `#${parts.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}
