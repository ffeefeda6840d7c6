// The mesh and the machine of a plan, with what a step sends where.
import { useGet, view } from "./api";
import { bytes, count, percent, rate, seconds } from "./format";
import { t } from "./i18n";
import { Drawing } from "./picture";
import { series, useTheme } from "./theme";
import type { ClusterView, MeshView } from "./types";
import { Panel, Shown } from "./ui";

const MOST_SHOWN = 256;

export function ClusterTab(props: { id: string }) {
  const cluster = useGet<ClusterView>(view(props.id, "cluster"));
  const mesh = useGet<MeshView>(view(props.id, "mesh"));
  return (
    <div class="grid">
      <Panel width="w8" title={t("The machine, and what a step sends over each link")}>
        <Shown of={cluster}>{(found) => found.picture
          ? <Drawing picture={found.picture} />
          : <p>{t("The plan names a machine that is neither bundled nor uploaded, so its wiring is not known here; its tiers are below.")}</p>}</Shown>
      </Panel>
      <Panel width="w4" title={t("The mesh")}><Shown of={mesh}>{(found) => <Mesh mesh={found} />}</Shown></Panel>
      <Panel width="w7" title={t("Tiers, from the outside in")}><Shown of={cluster}>{(found) => <Tiers cluster={found} />}</Shown></Panel>
      <Panel width="w5" title={t("Communication groups")}><Shown of={mesh}>{(found) => <Groups mesh={found} />}</Shown></Panel>
    </div>
  );
}

function Tiers(props: { cluster: ClusterView }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t("Tiers, from the outside in")}>
      <table>
        <thead><tr><th scope="col">{t("tier")}</th><th scope="col" class="right">{t("members")}</th><th scope="col">{t("wiring")}</th>
          <th scope="col" class="right">{t("bandwidth")}</th><th scope="col" class="right">{t("a device sends")}</th>
          <th scope="col" class="right">{t("busy")}</th><th scope="col" class="right">{t("exposed")}</th><th scope="col" class="right">{t("hidden")}</th></tr></thead>
        <tbody>{props.cluster.tiers.map((tier) => (
          <tr key={tier.name}><td>{tier.name}</td><td class="right">{tier.size}</td><td>{t(tier.kind.replaceAll("_", " "))} {tier.transport}</td>
            <td class="right">{rate(tier.bandwidth_bytes_per_s)}</td><td class="right">{bytes(tier.sent_bytes)}</td>
            <td class="right">{percent(tier.busy)}</td><td class="right">{seconds(tier.time_s)}</td><td class="right">{seconds(tier.hidden_s)}</td></tr>
        ))}</tbody>
      </table>
    </div>
  );
}

function Groups(props: { mesh: MeshView }) {
  return (
    <div class="scroll" tabIndex={0}>
    <table>
      <thead><tr><th scope="col">{t("over")}</th><th scope="col" class="right">{t("members")}</th><th scope="col" class="right">{t("times")}</th>
        <th scope="col" class="right">{t("bytes")}</th><th scope="col" class="right">{t("exposed")}</th><th scope="col" class="right">{t("hidden")}</th></tr></thead>
      <tbody>{props.mesh.groups.map((group) => (
        <tr key={group.axes.join()}><td class="name">{group.short}<div class="soft">{Object.keys(group.kinds).map((kind) => t(kind.replaceAll("_", "-"))).join(", ")}</div></td>
          <td class="right">{group.size}</td><td class="right">{count(group.count)}</td><td class="right">{bytes(group.bytes)}</td>
          <td class="right">{seconds(group.time_s)}</td><td class="right">{seconds(group.hidden_s)}</td></tr>
      ))}</tbody>
    </table>
    </div>
  );
}

function Mesh(props: { mesh: MeshView }) {
  useTheme();
  const { mesh } = props;
  const inner = mesh.axes.filter((axis) => axis.tier === mesh.axes.at(-1)?.tier).reduce((size, axis) => size * axis.size, 1);
  const columns = Math.min(inner, 8);
  const tiers = [...new Set(mesh.axes.map((axis) => axis.tier))];
  const ranks = mesh.ranks.slice(0, MOST_SHOWN);
  return (
    <>
      <p>{mesh.axes.map((axis, i) => (
        <span key={axis.name}>{i > 0 && " × "}<i class="swatch" style={{ background: series(tiers.indexOf(axis.tier) + 2) }} />{axis.name} <b>{axis.size}</b></span>
      ))}{mesh.stages > 1 && ` · ${mesh.stages} ${t("stages")}`}</p>
      <div class="rankgrid" style={{ gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))` }}>
        {ranks.map((device, rank) => (
          <div
            key={rank} class="rank" title={`${t("rank")} ${rank}, ${t("device")} ${device}: ${place(mesh, rank)}`}
          >{rank}{device !== rank && <span class="soft">→{device}</span>}</div>
        ))}
      </div>
      <p class="soft">{t("Ranks in order; a row shares the inner tier.")}{mesh.ranks.length + mesh.left_out > ranks.length && ` +${mesh.ranks.length + mesh.left_out - ranks.length}`}</p>
    </>
  );
}

function place(mesh: MeshView, rank: number): string {
  let rest = rank;
  const out: string[] = [];
  for (const axis of [...mesh.axes].reverse()) {
    out.unshift(`${axis.name} ${rest % axis.size}`);
    rest = Math.floor(rest / axis.size);
  }
  return out.join(", ");
}
