// English as it stands in the views; Chinese beside it in zh.ts, which only those load who read it.
type Chinese = typeof import("./said");

export type Language = "en" | "zh";

const KEY = "planner.language";
let now: Language = initial();
let chinese: Chinese | undefined;

function initial(): Language {
  const chosen = localStorage.getItem(KEY);
  if (chosen === "en" || chosen === "zh") return chosen;
  return navigator.language.startsWith("zh") ? "zh" : "en";
}

export function language(): Language {
  return now;
}

export async function setLanguage(chosen: Language): Promise<void> {
  now = chosen;
  localStorage.setItem(KEY, chosen);
  await languageReady();
}

/** Once its texts are there: before that nothing is shown. */
export async function languageReady(): Promise<void> {
  if (now === "zh") chinese ??= await import("./said");
}

/** A text of the page in the language that was chosen. */
export function t(text: string): string {
  return now === "zh" ? (chinese?.ZH[text] ?? text) : text;
}

/** A text of the service in the language that was chosen; English where it has no other. */
export function said(text: string): string {
  return now === "zh" ? (chinese?.saidInChinese(text) ?? text) : text;
}

/** A phrase of the service, or several with commas between them. */
export function phrases(text: string): string {
  const whole = said(text);
  return whole === text ? text.split(", ").map(said).join(", ") : whole;
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
