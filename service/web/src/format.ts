// Numbers for people: three or four digits and a unit.

const SECONDS: [number, string][] = [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]];
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function digits(value: number, precision = 4): string {
  const size = Math.abs(value);
  if (size >= 1000 && precision === 4) return value.toLocaleString("en", { maximumFractionDigits: 0 });
  return Number(value.toPrecision(precision)).toString();
}

export function seconds(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : precise(value, 4);
}

function precise(value: number, precision: number): string {
  // Less than a picosecond is rounding.
  if (Math.abs(value) < 1e-12) return "0 s";
  const [scale, unit] = SECONDS.find(([least]) => Math.abs(value) >= least) ?? SECONDS[3]!;
  return `${digits(value / scale, precision)} ${unit}`;
}

/** Seconds with so many digits that values which are close to each other differ. */
export function distinctSeconds(values: number[]): (value: number) => string {
  const most = Math.max(...values);
  const span = most - Math.min(...values);
  const precision = span > 0 ? Math.min(12, Math.max(4, Math.ceil(Math.log10(most / span)) + 3)) : 4;
  return (value) => precise(value, precision);
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < BYTES.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${digits(size)} ${BYTES[unit]}`;
}

const WATT_HOURS: [number, string][] = [[1e9, "GWh"], [1e6, "MWh"], [1e3, "kWh"], [1, "Wh"], [1e-3, "mWh"]];

export function energy(joules: number): string {
  const hours = joules / 3600;
  const [scale, unit] = WATT_HOURS.find(([least]) => hours >= least) ?? WATT_HOURS[4]!;
  return `${digits(hours / scale)} ${unit}`;
}

export function rate(value: number): string {
  return `${digits(value / 1e9)} GB/s`;
}

export function count(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 });
}

export function short(value: number): string {
  return Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }).format(value);
}

export function percent(part: number, whole = 1): string {
  if (!whole) return "–";
  const share = (100 * part) / whole;
  return `${share >= 99.95 || share === 0 ? share.toFixed(0) : share.toFixed(1)} %`;
}

/** A difference with its sign; a real minus. */
export function signed(value: number, format: (value: number) => string, whole = 0): string {
  if (Math.abs(value) <= 1e-9 * whole) return "±0";
  return `${value < 0 ? "−" : "+"}${format(Math.abs(value))}`;
}

export function when(value: string | number | undefined): string {
  if (value === undefined) return "";
  const time = typeof value === "number" ? new Date(value * 1000) : new Date(value);
  return Number.isNaN(time.getTime()) ? String(value) : time.toLocaleString();
}
