// Builds src/ into static/, which is committed and ships in the wheel. `static/sources.sha256` names
// the sources it was built from, so that a test can tell when it is stale.
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const out = join(here, "static");
const shipped = ["preact", "sigma", "graphology", "graphology-utils", "events", "echarts", "zrender", "tslib"];

function sourceHash() {
  const files = readdirSync(join(here, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  files.push(...["build.mjs", "package.json", "package-lock.json"].map((name) => join(here, name)));
  const names = files.map((file) => file.slice(here.length + 1).replaceAll("\\", "/")).sort();
  const hash = createHash("sha256");
  for (const name of names) {
    hash.update(`${name}\0`).update(readFileSync(join(here, name))).update("\0");
  }
  return hash.digest("hex");
}

function licences() {
  return shipped.map((name) => {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const texts = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /^(licen[cs]e|notice)/i.test(entry.name))
      .map((entry) => join(entry.parentPath, entry.name)).sort();
    const body = texts.map((file) => readFileSync(file, "utf8").trim());
    return [`${name} ${version} (${license})`, ...body].join("\n\n");
  }).join(`\n\n${"-".repeat(80)}\n\n`);
}

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({
  entryPoints: [join(here, "src", "main.tsx"), join(here, "src", "style.css")],
  outdir: out,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: true,
  jsx: "automatic",
  jsxImportSource: "preact",
  chunkNames: "[name]-[hash]",
  legalComments: "none",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) {
  cpSync(join(here, "src", name), join(out, name));
}
writeFileSync(join(out, "LICENCES.txt"), `${licences()}\n`);
writeFileSync(join(out, "sources.sha256"), `${sourceHash()}\n`);
