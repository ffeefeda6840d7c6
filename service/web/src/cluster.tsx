// The mesh and the machine of a plan, with what a step sends where.
import { useState } from "preact/hooks";
import { useGet, view } from "./api";
import { count } from "./format";
import { t } from "./i18n";
import { PartPanel } from "./parts";
import { Drawing } from "./picture";
import { setQuery, useRoute } from "./router";
import { series, useTheme } from "./theme";
import type { ClusterView, MeshView, Picture, TierLoad } from "./types";
import { Panel, Shown } from "./ui";

const MOST_SHOWN = 256;
const MOST_SERVERS = 16;

export function ClusterTab(props: { id: string }) {
  const { query } = useRoute();
  const servers = query.get("servers");
  const cluster = useGet<ClusterView>(view(props.id, "cluster", servers ? { servers } : {}));
  const mesh = useGet<MeshView>(view(props.id, "mesh"));
  return (
    <div class="grid">
      <Panel width="w8" title={t("The machine, and what a step sends over each link")}>
        <Shown of={cluster}>{(found) => found.picture
          ? <><Drawn picture={found.picture} /><Drawing picture={found.picture} /></>
          : <p>{t("The plan names a machine that is neither bundled nor uploaded, so its wiring is not known here; its tiers are below.")}</p>}</Shown>
      </Panel>
      <Panel width="w4" title={t("The mesh")}><Shown of={mesh}>{(found) => <Mesh mesh={found} devices={cluster.data?.picture?.servers?.devices} />}</Shown></Panel>
      <PartPanel width="w7" of={cluster.data?.report} fact={(row, heading) => heading === "holds the step up" ? heldUp(cluster.data!.tiers[row]!) : undefined}>
        <p class="soft">{t("Time of a collective over several tiers is that of the links that hold it up: those of which twice the bandwidth would save most.")}</p>
      </PartPanel>
      <PartPanel width="w5" of={mesh.data?.report} />
    </div>
  );
}

function heldUp(tier: TierLoad): [string, number] {
  return [`held_up_s.${tier.name}`, tier.time_s];
}

/** How many servers the picture has, where the plan uses more. */
function Drawn(props: { picture: Picture }) {
  const { servers } = props.picture;
  if (!servers || (servers.drawn >= servers.used && servers.drawn <= 2)) return null;
  const all = Math.min(servers.used, MOST_SERVERS);
  return (
    <p class="row">
      <span>{t("servers drawn")}: <b>{servers.drawn} / {servers.used}</b></span>
      {servers.drawn < servers.used && <span class="soft">{t("the others are wired alike")}</span>}
      {servers.drawn < all && <button onClick={() => setQuery({ servers: String(all) })}>{t("Draw more")} ({all})</button>}
      {servers.drawn > 2 && <button onClick={() => setQuery({ servers: undefined })}>{t("Draw two")}</button>}
    </p>
  );
}

function Mesh(props: { mesh: MeshView; devices: number | undefined }) {
  useTheme();
  const { mesh, devices } = props;
  const [chosen, setChosen] = useState<number>();
  const inner = mesh.axes.filter((axis) => axis.tier === mesh.axes.at(-1)?.tier).reduce((size, axis) => size * axis.size, 1);
  const columns = Math.min(inner, 8);
  const tiers = [...new Set(mesh.axes.map((axis) => axis.tier))];
  const ranks = mesh.ranks.slice(0, MOST_SHOWN);
  const all = mesh.ranks.length + mesh.left_out;
  return (
    <>
      <p>{mesh.axes.map((axis, i) => (
        <span key={axis.name}>{i > 0 && " × "}<i class="swatch" style={{ background: series(tiers.indexOf(axis.tier) + 2) }} />{axis.name} <b>{axis.size}</b></span>
      ))}{mesh.stages > 1 && ` · ${mesh.stages} ${t("stages")}`}</p>
      <div class="rankgrid" style={{ gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))` }}>
        {ranks.map((device, rank) => (
          <button
            key={rank} class="rank" aria-pressed={rank === chosen} title={place(mesh, rank, devices)} onClick={() => setChosen(rank === chosen ? undefined : rank)}
          >{rank}{device !== rank && <span class="soft">→{device}</span>}</button>
        ))}
      </div>
      <p role="status">{chosen !== undefined && place(mesh, chosen, devices)}</p>
      <p class="soft">{t("Ranks in order; a row shares the inner tier.")}{all > ranks.length && ` ${ranks.length} / ${count(all)}`}</p>
    </>
  );
}

/** Where a rank is: device, server, stage, and its place along each axis of the mesh. */
function place(mesh: MeshView, rank: number, devices: number | undefined): string {
  const device = mesh.ranks[rank]!;
  const own = mesh.axes.reduce((size, axis) => size * axis.size, 1);
  let rest = rank % own;
  const out: string[] = [];
  for (const axis of [...mesh.axes].reverse()) {
    out.unshift(`${axis.name} ${rest % axis.size}`);
    rest = Math.floor(rest / axis.size);
  }
  if (mesh.stages > 1) out.unshift(`${t("stage")} ${Math.floor(rank / own)}`);
  const server = devices ? [`${t("server")} ${Math.floor(device / devices)}`, `${t("card")} ${device % devices}`] : [];
  return [`${t("rank")} ${rank}`, `${t("device")} ${device}`, ...server, ...out].join(", ");
}
