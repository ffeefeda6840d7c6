// Bundles src/ into the folder that is named; build_page.py calls it.
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = import.meta.dirname;
const out = process.argv[2];
const shipped = ["preact", "echarts", "zrender", "tslib"];

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
for (const name of readdirSync(out).filter((each) => /\.(js|css|html|svg)$/.test(each))) {
  writeFileSync(join(out, `${name}.gz`), gzipSync(readFileSync(join(out, name)), { level: 9 }));
}
writeFileSync(join(out, "LICENCES.txt"), `${licences()}\n`);
