// The panel "why": what was chosen for an operator, its rivals, and what forces it.
import { useState } from "preact/hooks";
import { useGet, view } from "./api";
import { said, t } from "./i18n";
import { Parts } from "./parts";
import type { Summary, WhyView } from "./types";
import { Panel, Shown } from "./ui";

const SMALL = 600;
const SMALL_WITH_STAGES = 1500;

/** Whether a whole explanation is there in seconds; else it waits until somebody asks. Each stage is a problem of its own. */
export function isSmall(summary: Summary): boolean {
  return summary.operators <= (summary.pipeline ? SMALL_WITH_STAGES : SMALL);
}

/** At a glance first; all else chosen anew when that is there, or when somebody asks for it. */
export function Why(props: { id: string; op: string; small: boolean; close?: () => void }) {
  const path = `why/${encodeURIComponent(props.op)}`;
  const [asked, setAsked] = useState("");
  const glance = useGet<WhyView>(view(props.id, path, { glance: "true" }));
  const isWanted = props.small ? glance.data?.name === props.op : asked === props.op;
  const whole = useGet<WhyView>(isWanted ? view(props.id, path) : null);
  const isThere = isWanted && whole.data?.name === props.op;
  const found = isThere ? whole : glance;
  const extra = props.close && <button class="plain" onClick={props.close} aria-label={t("Close")}>✕</button>;
  return (
    <Panel title={t("Why")} extra={extra}>
      <Shown of={found}>{(why) => (
        <>
          <Parts of={why.report} fold={2} />
          {!why.memory && <p class="soft">{t("With all else as planned.")}{" "}
            {isWanted
              ? <span role="status">{whole.error ? said(whole.error.message) : `${t("All else is chosen anew")} …`}</span>
              : <button onClick={() => setAsked(props.op)}>{t("Choose all else anew")}</button>}</p>}
        </>
      )}</Shown>
    </Panel>
  );
}
