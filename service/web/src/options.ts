// The options of a search, as the service declares them: the forms offer what they say.
import { useGet, type Loaded } from "./api";

interface Schema {
  type?: string;
  anyOf?: { type?: string }[];
  enum?: (string | null)[];
  default?: unknown;
}

export interface Option {
  /** Of JSON: integer, string, array ... */
  form: string;
  choices: string[];
  /** What holds where nothing is given; empty where the model or the machine says it. */
  usual: string;
}

export type Declared = Record<string, Option>;

type OpenApi = { components: { schemas: { SearchOptions: { properties: Record<string, Schema> } } } };

function optionOf(schema: Schema): Option {
  const form = schema.type ?? schema.anyOf?.map((each) => each.type).find((each) => each !== "null") ?? "";
  const usual = ["string", "number"].includes(typeof schema.default) ? String(schema.default) : "";
  return { form, choices: (schema.enum ?? []).filter((each) => each !== null), usual };
}

/** Every option by its name. */
export function useOptions(): Loaded<Declared> {
  const { data, ...state } = useGet<OpenApi>("/openapi.json");
  if (!data) return state;
  const properties = Object.entries(data.components.schemas.SearchOptions.properties);
  return { ...state, data: Object.fromEntries(properties.map(([name, schema]) => [name, optionOf(schema)])) };
}
