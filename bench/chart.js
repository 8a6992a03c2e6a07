/** Draws a run's ratios. */
// @ts-ignore: only bench/package.json has it, and `npm run types` also runs where `npm ci --prefix bench` has not.
import * as echarts from 'echarts';

/** Readable on white, and apart for people who do not see all colours. */
const COLORS = ['#0072b2', '#d55e00', '#009e73', '#aa4499', '#e69f00'];

const ROW = 26;

/**
 * @param ratios for each load, number of connections and peer: how many times the peer's requests per second the service
 *   handles. A panel for each number of connections, on a logarithmic axis.
 * @returns an SVG document.
 */
export function chartOf(ratios) {
  const counts = [...new Set(ratios.map(({ connections }) => connections))];
  const loads = [...new Set(ratios.map(({ title }) => title))];
  const peers = [...new Set(ratios.map(({ peer }) => peer))];
  const values = ratios.map(({ ratio }) => ratio);
  const [from, to] = [Math.min(0.5, ...values), Math.max(2, ...values)];
  const panel = loads.length * ROW;
  const top = (i) => 90 + i * (panel + 70);
  const options = {
    animation: false,
    backgroundColor: '#fff',
    color: COLORS,
    title: [
      heading("The service's requests per second, as a multiple of each server's", 12, 15),
      ...counts.map((count, i) =>
        heading(`${count} ${count === 1 ? 'connection' : 'connections'}`, top(i) - 30, 13),
      ),
    ],
    legend: { data: peers, top: 38, left: 230, itemGap: 30 },
    grid: counts.map((_, i) => ({ left: 240, right: 30, top: top(i), height: panel })),
    xAxis: counts.map((_, gridIndex) => ({
      gridIndex,
      type: 'log',
      logBase: 2,
      min: 2 ** Math.floor(Math.log2(from)),
      max: 2 ** Math.ceil(Math.log2(to)),
      axisLabel: { formatter: '{value} ×' },
    })),
    yAxis: counts.map((_, gridIndex) => ({
      gridIndex,
      type: 'category',
      inverse: true,
      data: loads,
      axisTick: { show: false },
      splitLine: { show: true },
    })),
    series: counts.flatMap((count, i) =>
      peers.map((peer, j) => ({
        name: peer,
        type: 'scatter',
        symbolSize: 10,
        xAxisIndex: i,
        yAxisIndex: i,
        data: ratios
          .filter((one) => one.connections === count && one.peer === peer)
          .map(({ ratio, title }) => [ratio, title]),
        markLine: {
          silent: true,
          symbol: 'none',
          lineStyle: { color: '#333', type: 'solid' },
          label: { show: false },
          data: j === 0 ? [{ xAxis: 1 }] : [],
        },
      })),
    ),
  };
  const size = { width: 900, height: top(counts.length) - 30 };
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, ...size });
  chart.setOption(options);
  const svg = chart.renderToSVGString();
  // Its timer would keep the process from ending.
  chart.dispose();
  return svg;
}

const heading = (text, top, fontSize) => ({ text, textStyle: { fontSize }, left: 20, top });
