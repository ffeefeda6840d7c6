// Sentences of the service in Chinese. In a pattern {} stands for what is carried over as it is (a name, a number with
// its unit), {w} for a word or sentence that has Chinese itself; {1}, {2} … are these in order. Those with more words
// of their own are tried first. What is not known stays English.
import { ZH } from "./zh";
import { SAID_OF_REFUSALS } from "./said_refusals";
import { SAID_OF_PLANS } from "./said_plans";
import { SAID_OF_UPLOADS } from "./said_uploads";
import { SAID_OF_EXPORTS } from "./said_exports";
import { SAID_OF_RECIPES } from "./said_recipes";
import { SAID_OF_REPORT } from "./said_report";

export { ZH };

export type Said = [english: string, chinese: string];

interface Pattern {
  expression: RegExp;
  chinese: string;
  words: boolean[];
}

const HOLE = /\{w?\}/g;
const known = new Map<string, string>();
let patterns: Pattern[] | undefined;

function compiled(): Pattern[] {
  const rows: Said[] = [...SAID_OF_PLANS, ...SAID_OF_REFUSALS, ...SAID_OF_UPLOADS, ...SAID_OF_EXPORTS, ...SAID_OF_RECIPES, ...SAID_OF_REPORT];
  const own = ([english]: Said) => english.replaceAll(HOLE, "").length;
  return rows.sort((a, b) => own(b) - own(a)).map(([english, chinese]) => ({
    expression: new RegExp(`^${english.split(HOLE).map(escaped).join("(.+?)")}$`),
    chinese,
    words: (english.match(HOLE) ?? []).map((hole) => hole === "{w}"),
  }));
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** A text of the service, line by line: what, where, how to mend it. */
export function saidInChinese(text: string): string {
  return text.split("\n").map(line).join("\n");
}

const HEADS: [RegExp, string][] = [[/^  at:  /, "  位置："], [/^  fix: /, "  办法："], [/^- /, "- "]];

function line(text: string): string {
  const head = HEADS.find(([start]) => start.test(text));
  return head ? head[1] + sentence(text.replace(head[0], "")) : sentence(text);
}

function sentence(text: string): string {
  const found = known.get(text) ?? ZH[text] ?? matched(text) ?? faults(text) ?? text;
  known.set(text, found);
  return found;
}

/** A sentence, or causes such as "compute forward, all_gather in card". */
function listed(text: string): string {
  const whole = sentence(text);
  if (whole !== text) return whole;
  return text.split(", ").map((part) => {
    const [kind, tier] = part.split(" in ", 2);
    const word = ZH[kind!.replaceAll("_", "-")];
    return word && tier ? `${word}（${ZH[tier] ?? tier}间链路）` : sentence(part);
  }).join("、");
}

/** Faults of a file, such as "schema_version: Field required; servers: Field required". */
function faults(text: string): string | undefined {
  const told = text.split("; ").map((part) => {
    const [, place, fault] = /^(\S+): (.+)$/.exec(part) ?? [];
    const found = fault && (ZH[fault] ?? matched(fault));
    return found ? `${place}：${found}` : undefined;
  });
  return told.every((each) => each !== undefined) ? told.join("；") : undefined;
}

function matched(text: string): string | undefined {
  patterns ??= compiled();
  for (const { expression, chinese, words } of patterns) {
    const found = expression.exec(text);
    if (!found) continue;
    const parts = found.slice(1).map((part, i) => (words[i] ? listed(part) : part));
    return chinese.replaceAll(/\{(\d)\}/g, (_, number) => parts[Number(number) - 1] ?? "");
  }
  return undefined;
}
