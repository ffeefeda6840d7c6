// The parts of ECharts that the page uses.
import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import {
  BrushComponent, DataZoomComponent, GridComponent, LegendComponent, MarkLineComponent, TooltipComponent,
} from "echarts/components";
import { init, use } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

use([
  BarChart, BrushComponent, CanvasRenderer, CustomChart, DataZoomComponent, GridComponent, LegendComponent, LineChart,
  MarkLineComponent, ScatterChart, TooltipComponent,
]);

export { init };
