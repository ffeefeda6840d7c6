// English as it stands in the views; Chinese beside it in zh.ts.
import { saidInChinese } from "./said";
import { ZH } from "./zh";

export type Language = "en" | "zh";

const KEY = "planner.language";
let now: Language = initial();

function initial(): Language {
  const chosen = localStorage.getItem(KEY);
  if (chosen === "en" || chosen === "zh") return chosen;
  return navigator.language.startsWith("zh") ? "zh" : "en";
}

export function language(): Language {
  return now;
}

export function setLanguage(chosen: Language): void {
  now = chosen;
  localStorage.setItem(KEY, chosen);
}

/** A text of the page in the language that was chosen. */
export function t(text: string): string {
  return now === "zh" ? (ZH[text] ?? text) : text;
}

/** A text of the service in the language that was chosen; English where it has no other. */
export function said(text: string): string {
  return now === "zh" ? saidInChinese(text) : text;
}

/** The links of a tier by what they join, as the command line names them. */
export function linksBetween(tier: string): string {
  return said(`links between ${tier}${/(s|x|ch|sh)$/.test(tier) ? "es" : "s"}`);
}

/** A collective and the links that it crosses. */
export function overLinks(kind: string, tier: string): string {
  return now === "zh" ? `${t(kind)}（${linksBetween(tier)}）` : `${kind} over ${linksBetween(tier)}`;
}

/** A part of the machine, such as "stage 3". */
export function deviceName(name: string): string {
  const [, stage] = /^stage (\d+)$/.exec(name) ?? [];
  return stage === undefined ? t(name) : `${t("stage")} ${stage}`;
}
