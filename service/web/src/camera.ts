// Which part of a picture is seen, and how a hand moves it.

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

const MOST_OUT = 0.5;
const MOST_IN = 250;

/** Places of a picture on the screen: x * scale + dx. The whole picture fits where the zoom is 1. */
export class Camera {
  scale = 1;
  dx = 0;
  dy = 0;
  width = 1;
  height = 1;
  private whole = 1;

  /** At first the picture is drawn at `least` pixels to a unit, even where it does not fit then. */
  constructor(private readonly box: Box, private readonly padding: (width: number) => number, private readonly least = 0) {}

  get zoom(): number {
    return this.scale / this.whole;
  }

  /** Another size of the window: at first all is shown, later its middle stays. */
  resize(width: number, height: number): void {
    const zoom = this.zoom;
    const middle = this.at(this.width / 2, this.height / 2);
    const isFirst = this.width === 1;
    this.width = width;
    this.height = height;
    const padding = this.padding(width);
    const { left, top, right, bottom } = this.box;
    this.whole = Math.min((width - 2 * padding) / Math.max(right - left, 1), (height - 2 * padding) / Math.max(bottom - top, 1));
    if (isFirst) this.begin(padding);
    else {
      this.scale = this.whole * zoom;
      this.centre(...middle);
    }
  }

  /** All of it, or its beginning where all of it would be too small to read. */
  private begin(padding: number): void {
    this.reset();
    if (this.whole >= this.least) return;
    this.scale = this.least;
    this.dx = padding / 2 - this.box.left * this.scale;
    this.dy = 1.5 * this.least - this.box.top * this.scale;
  }

  reset(): void {
    this.scale = this.whole;
    this.centre((this.box.left + this.box.right) / 2, (this.box.top + this.box.bottom) / 2);
  }

  centre(x: number, y: number): void {
    this.dx = this.width / 2 - x * this.scale;
    this.dy = this.height / 2 - y * this.scale;
  }

  /** The place of the picture under a point of the screen. */
  at(x: number, y: number): [number, number] {
    return [(x - this.dx) / this.scale, (y - this.dy) / this.scale];
  }

  move(dx: number, dy: number): void {
    this.dx += dx;
    this.dy += dy;
  }

  /** Zooms, while what is under a point of the screen stays there. */
  zoomAt(factor: number, x = this.width / 2, y = this.height / 2): void {
    const scale = Math.min(this.whole * MOST_IN, Math.max(this.whole * MOST_OUT, this.scale * factor));
    const place = this.at(x, y);
    this.scale = scale;
    this.move(x - (place[0] * scale + this.dx), y - (place[1] * scale + this.dy));
  }
}

export interface Moved {
  changed: () => void;
  click: (x: number, y: number) => void;
  over: (x: number, y: number) => void;
}

const CLICK_PX = 4;

/** Lets a mouse or fingers drag, zoom and click; returns what ends it. */
export function follow(place: HTMLElement, camera: Camera, told: Moved): () => void {
  const fingers = new Map<number, [number, number]>();
  let began: [number, number] | undefined;
  let isClick = false;
  const point = (event: MouseEvent): [number, number] => {
    const box = place.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const down = (event: PointerEvent) => {
    place.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, point(event));
    began = point(event);
    isClick = fingers.size === 1 && event.button === 0;
  };
  const move = (event: PointerEvent) => {
    const now = point(event);
    const before = fingers.get(event.pointerId);
    if (!before) return told.over(...now);
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    if (began && Math.hypot(now[0] - began[0], now[1] - began[1]) > CLICK_PX) isClick = false;
    if (isClick) return;
    if (other) {
      const [far, near] = [now, before].map((each) => Math.hypot(each[0] - other[0], each[1] - other[1]));
      camera.zoomAt(far! / Math.max(near!, 1), ...other);
    } else camera.move(now[0] - before[0], now[1] - before[1]);
    fingers.set(event.pointerId, now);
    told.changed();
  };
  const up = (event: PointerEvent) => {
    fingers.delete(event.pointerId);
    if (isClick && event.type === "pointerup") told.click(...point(event));
    isClick = false;
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    camera.zoomAt(Math.exp(-Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 100) / 250), ...point(event));
    told.changed();
  };
  const heard: [string, (event: any) => void][] = [["pointerdown", down], ["pointermove", move], ["pointerup", up], ["pointercancel", up], ["wheel", wheel]];
  for (const [name, listen] of heard) place.addEventListener(name, listen, { passive: false });
  return () => {
    for (const [name, listen] of heard) place.removeEventListener(name, listen);
  };
}
