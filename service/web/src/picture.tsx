// A machine as the server placed it: boxes, lines and dots, with what each link carries.
import { useState } from "preact/hooks";
import { bytes } from "./format";
import { t } from "./i18n";
import { colour, ramp, shade, useTheme } from "./theme";
import type { Picture } from "./types";

const KINDS = ["HCCS", "NVLINK", "XGMI", "ICI", "UB", "SIO", "PCIE", "ROCE", "IB"];

const ORDER = ["server", "group", "shared", "switch"];

function kindColour(kind: string): string {
  return colour(`c${Math.max(KINDS.indexOf(kind), 0) % 8}`);
}

export function Drawing(props: { picture: Picture }) {
  useTheme();
  const [told, setTold] = useState("");
  const { picture } = props;
  const [left, top, right, bottom] = picture.extent;
  const most = Math.max(...picture.lines.map((line) => line.bytes ?? 0), 0);
  const ofLine = (line: Picture["lines"][number]) => {
    if (line.bytes === null || !most) return kindColour(line.kind);
    return shade(line.bytes / most);
  };
  const text = (line: Picture["lines"][number]) =>
    `${line.kind} ${picture.legend[line.kind] ?? ""}` +
    (line.bytes === null ? "" : `: ${bytes(line.bytes)} ${t("each way in a step")}`);
  const viewBox = `${left - 0.4} ${top - 0.7} ${right - left + 0.8} ${bottom - top + 1.2}`;
  return (
    <>
      <p class="soft">{picture.title}</p>
      <svg class="picture" viewBox={viewBox} role="img" aria-label={`${t("Picture of the machine")}: ${picture.title}`}>
        {[...picture.boxes].sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind)).map((box, i) => <Box key={i} box={box} />)}
        {picture.lines.map((line, i) => (
          <polyline
            key={i} points={line.points.map((point) => point.join(",")).join(" ")} fill="none" stroke={ofLine(line)}
            stroke-width={0.02 + 0.022 * line.width} stroke-opacity={line.faint ? 0.6 : 0.95} stroke-linecap="round"
            onMouseEnter={() => setTold(text(line))}
          ><title>{text(line)}</title></polyline>
        ))}
        {picture.dots.map((dot, i) => dot.kind === "device"
          ? <g key={i}>
              <circle cx={dot.x} cy={dot.y} r={0.24} fill={colour("panel")} stroke={colour("text")} stroke-width={0.035} />
              <text x={dot.x} y={dot.y} text-anchor="middle" dominant-baseline="central" font-size={0.22}>{dot.label}</text>
            </g>
          : <rect key={i} x={dot.x - 0.09} y={dot.y - 0.09} width={0.18} height={0.18} fill={colour("panel")} stroke={colour("soft")} stroke-width={0.03} />)}
      </svg>
      <div class="legend">
        {Object.entries(picture.legend).map(([kind, rate]) => (
          <span key={kind}>{!most && <i class="swatch" style={{ background: kindColour(kind) }} />}{kind} {rate}</span>
        ))}
        {most > 0 && <span>{t("each way in a step")}: 0 <Ramp /> {bytes(most)}</span>}
        <span class="grow" role="status">{told}</span>
      </div>
    </>
  );
}

function Box(props: { box: Picture["boxes"][number] }) {
  const { box } = props;
  const fill = { switch: colour("accent-soft"), shared: colour("mark"), group: "none" }[box.kind] ?? colour("raised");
  const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  const isServer = box.kind === "server";
  return (
    <>
      {box.kind === "group"
        ? <ellipse cx={middle.x} cy={middle.y} rx={box.width / 2} ry={box.height / 2} fill="none" stroke={colour("strong-line")} stroke-width={0.025} stroke-dasharray="0.1 0.08" />
        : <rect x={box.x} y={box.y} width={box.width} height={box.height} rx={0.12} fill={fill} stroke={colour("strong-line")} stroke-width={0.025} />}
      <text
        x={isServer || box.kind === "group" ? box.x + 0.1 : middle.x} y={isServer ? box.y - 0.12 : box.kind === "group" ? box.y : middle.y}
        text-anchor={isServer || box.kind === "group" ? "start" : "middle"} dominant-baseline={isServer ? "auto" : "central"} font-size={0.24}
      >{box.label}</text>
    </>
  );
}

export function Ramp() {
  useTheme();
  return <i class="ramp" style={{ background: `linear-gradient(to right, ${ramp().join(",")})` }} />;
}
