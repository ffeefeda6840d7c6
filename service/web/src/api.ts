// What the page asks the service.
import { useEffect, useState } from "preact/hooks";

const TOKEN = "planner.token";

export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

export function token(): string {
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function setToken(value: string): void {
  sessionStorage.setItem(TOKEN, value);
}

function headers(): Record<string, string> {
  const own = token();
  return own ? { Authorization: `Bearer ${own}` } : {};
}

/** Says what went wrong in the words of the service: what, at, fix. */
async function failure(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    return new ApiError(response.status, String(JSON.parse(text).message));
  } catch {
    return new ApiError(response.status, text || response.statusText);
  }
}

export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(path, {
    ...init,
    headers: { ...headers(), ...(init.headers as Record<string, string>) },
  });
  if (!response.ok) throw await failure(response);
  return response;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await call(path, { signal: signal ?? null })).json();
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  const response = await call(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return response.json();
}

export type Kind = "models" | "clusters" | "plans";

/** A part of a list, and how long the whole of it is. */
export async function page<T>(path: string, signal: AbortSignal): Promise<{ rows: T[]; count: number }> {
  const response = await call(path, { signal });
  return { rows: await response.json(), count: Number(response.headers.get("X-Total-Count")) };
}

/** The result of a job once it is over; that it failed is an error in the words of the service. */
export async function finished(job: string): Promise<Record<string, any>> {
  for (;;) {
    const found = await get<{ state: string; message: string | null; result: Record<string, any> | null }>(`/v1/jobs/${job}`);
    if (found.state === "done") return found.result ?? {};
    if (found.state === "failed" || found.state === "cancelled") throw new ApiError(422, found.message ?? found.state);
    await new Promise((wake) => setTimeout(wake, 250));
  }
}

/** Uploads a file and waits until it has been read; what is refused is an error in the words of the service. */
export async function upload(kind: Kind, file: File): Promise<{ id: string; name: string }> {
  const name = file.name.replaceAll(/[\x00-\x1f\x7f/\\]/g, "_").replace(/^[.]+/, "").slice(-100);
  const response = await call(`/v1/${kind}?name=${encodeURIComponent(name)}`, {
    method: "POST",
    headers: { "Content-Type": "application/octet-stream" },
    body: file,
  });
  const item: { id: string; name: string; job: string } = await response.json();
  await finished(item.job);
  return item;
}

export interface Loaded<T> {
  data?: T;
  error?: Error;
  loading: boolean;
}

/** The answer to a GET; an older one stays visible while a newer one is on its way. */
export function useGet<T>(path: string | null, version = 0): Loaded<T> {
  const [state, setState] = useState<Loaded<T>>({ loading: path !== null });
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    setState((old) => ({ ...old, loading: true }));
    get<T>(path, stop.signal).then(
      (data) => setState({ data, loading: false }),
      (error: Error) => {
        if (!stop.signal.aborted) setState({ error, loading: false });
      },
    );
    return () => stop.abort();
  }, [path, version]);
  return state;
}

export interface ServerEvent {
  event: string;
  data: any;
}

/** Server-sent events by fetch, since an EventSource carries no token. */
export async function events(
  path: string, signal: AbortSignal, receive: (event: ServerEvent) => void,
): Promise<void> {
  const response = await call(path, { signal, headers: { Accept: "text/event-stream" } });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = { event: "message", data: "" };
      for (const line of block.split("\n")) {
        if (line.startsWith("event:")) fields.event = line.slice(6).trim();
        if (line.startsWith("data:")) fields.data += line.slice(5).trim();
      }
      if (fields.data) receive({ event: fields.event, data: JSON.parse(fields.data) });
    }
  }
}

export function view(plan: string, name: string, query: Record<string, string> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `/v1/plans/${encodeURIComponent(plan)}/views/${name}${search ? `?${search}` : ""}`;
}
