// The frame: navigation, theme, language, and which view a link shows.
import { render } from "preact";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { setToken, token } from "./api";
import { Clusters } from "./clusters";
import { Compare } from "./compare";
import { language, languageReady, setLanguage, t } from "./i18n";
import { JobPage, Jobs } from "./jobs";
import { Layouts } from "./layouts";
import { Models } from "./models";
import { PlanPage } from "./plan";
import { Plans } from "./plans";
import { go, link, useRoute } from "./router";
import { Search } from "./search";
import { Sweep } from "./sweep";
import { applyTheme, theme, toggleTheme, useTheme } from "./theme";
import { useKeys } from "./ui";

const PAGES: [string, string][] = [
  ["plans", "Plans"], ["new", "New search"], ["layouts", "Layouts"], ["sweep", "Sweep"], ["jobs", "Jobs"], ["models", "Models"],
  ["clusters", "Clusters"],
];

const KEYS: [string, string][] = [
  ["1 … 9", "views of a plan"], ["/", "search"], ["n", "new search"], ["p", "plans"], ["j", "jobs"],
  ["↑ ↓ ← →", "move through the graph"], ["+ − 0", "zoom the graph, show all of it"], ["w s a d", "zoom and move the timeline"], ["r", "select a range of the timeline"], ["Esc", "close what is open"],
  ["d", "light or dark"], ["l", "language"], ["?", "this list"],
];

function Page(props: { path: string[] }): ComponentChildren {
  const [first = "plans", second, third, fourth] = props.path;
  switch (first) {
    case "plans": return second ? <PlanPage key={second} id={second} tab={third ?? "overview"} /> : <Plans />;
    case "compare": return <Compare ids={props.path.slice(1)} />;
    case "jobs": return second ? <JobPage key={second} id={second} /> : <Jobs />;
    case "new": return <Search />;
    case "layouts": return <Layouts job={second} />;
    case "sweep": return <Sweep job={second} />;
    case "models": return <Models />;
    case "clusters": return <Clusters name={second} />;
    default: return <p>{t("There is no such view.")} <a href="#/plans">{t("Plans")}</a> {fourth}</p>;
  }
}

function Keys(props: { close: () => void }) {
  return (
    <dialog open aria-label={t("Keys")}>
      <div class="row"><h2 class="grow">{t("Keys")}</h2><button onClick={props.close}>{t("Close")}</button></div>
      <table><tbody>{KEYS.map(([key, what]) => <tr key={key}><td><kbd>{key}</kbd></td><td>{t(what)}</td></tr>)}</tbody></table>
    </dialog>
  );
}

function Token(props: { close: () => void }) {
  const [value, setValue] = useState(token());
  const save = (event: Event) => {
    event.preventDefault();
    setToken(value);
    location.reload();
  };
  return (
    <dialog open aria-label={t("Token")}>
      <form onSubmit={save}>
        <label class="field"><span>{t("Token of the service, kept until the window is closed")}</span>
          <input type="password" value={value} autocomplete="off" onInput={(e) => setValue(e.currentTarget.value)} /></label>
        <p class="row"><button class="primary" type="submit">{t("Save")}</button>
          <button type="button" onClick={props.close}>{t("Close")}</button></p>
      </form>
    </dialog>
  );
}

function App() {
  const { path } = useRoute();
  const [open, setOpen] = useState("");
  const [lang, setLang] = useState(language());
  useTheme();
  const switchLanguage = async () => {
    await setLanguage(lang === "en" ? "zh" : "en");
    setLang(language());
  };
  useEffect(() => {
    document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
  }, [lang]);
  useKeys((event) => {
    const act: Record<string, () => void> = {
      "?": () => setOpen("keys"), Escape: () => setOpen(""), d: toggleTheme, l: () => void switchLanguage(),
      n: () => go(["new"]), p: () => go(["plans"]), j: () => go(["jobs"]),
      "/": () => document.querySelector<HTMLElement>("input[type=search]")?.focus(),
    };
    if (act[event.key]) {
      event.preventDefault();
      act[event.key]!();
    }
  });
  const here = path[0] === "compare" ? "plans" : (path[0] ?? "plans");
  return (
    <div key={lang}>
      <a class="skip" href={link(path)} onClick={() => document.querySelector<HTMLElement>("main")?.focus()}>{t("Skip to content")}</a>
      <header class="top">
        <a class="brand" href="#/plans"><img src="icon.svg" alt="" /> Planner</a>
        <nav aria-label={t("Main")}>
          {PAGES.map(([name, title]) => (
            <a key={name} href={link([name])} aria-current={here === name ? "page" : undefined}>{t(title)}</a>
          ))}
        </nav>
        <div class="row">
          <button class="icon plain" onClick={() => setOpen("token")} title={t("Token of the service")}>{t("Token")}</button>
          <button class="icon plain" onClick={() => setOpen("keys")} aria-label={t("Keys")} title={t("Keys")}>?</button>
          <button class="icon plain" lang={lang === "en" ? "zh-CN" : "en"} onClick={() => void switchLanguage()}>{lang === "en" ? "中文" : "English"}</button>
          <button class="icon plain" onClick={toggleTheme} aria-label={t("light or dark")} title={t("light or dark")}>
            {theme() === "dark" ? "☀" : "☾"}
          </button>
        </div>
      </header>
      <main tabIndex={-1}>
        {open === "keys" && <Keys close={() => setOpen("")} />}
        {open === "token" && <Token close={() => setOpen("")} />}
        <Page path={path} />
      </main>
    </div>
  );
}

applyTheme();
await languageReady();
render(<App />, document.getElementById("app")!);
