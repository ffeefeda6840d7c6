// Every view is a hash such as #/plans/p_12/graph?level=operators&op=node_linear, so it has a link.
import { useEffect, useState } from "preact/hooks";

export interface Route {
  path: string[];
  query: URLSearchParams;
}

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return {
    path: path.split("/").filter(Boolean).map(decodeURIComponent),
    query: new URLSearchParams(query),
  };
}

export function link(path: string[], query: Record<string, string | undefined> = {}): string {
  const kept = Object.entries(query).filter((pair): pair is [string, string] => !!pair[1]);
  const search = new URLSearchParams(kept).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

export function go(path: string[], query: Record<string, string | undefined> = {}): void {
  location.hash = link(path, query);
}

/** Changes the query of the present view without a new entry in the history. */
export function setQuery(changes: Record<string, string | undefined>): void {
  const { path, query } = parse(location.hash);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    if (value) query.set(name, value);
  }
  const search = query.toString();
  history.replaceState(null, "", `${link(path)}${search ? `?${search}` : ""}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parse(location.hash));
  useEffect(() => {
    const changed = () => setRoute(parse(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
