"use strict";
function said(value) {
  if (Math.abs(value) >= 1 << 20) return value >= 1 << 30 ? (value / 2 ** 30).toFixed(2) + " GiB" : (value / 2 ** 20).toFixed(0) + " MiB";
  return String(Number(value.toPrecision(4)));
}
for (const plot of document.querySelectorAll(".plot")) {
  const curves = JSON.parse(plot.querySelector("script").textContent);
  const times = curves[0][1].map(point => point[0]);
  const span = Number(plot.dataset.span);
  const cross = plot.querySelector(".cross"), readout = plot.parentNode.querySelector(".readout");
  let at = times.length - 1;
  const nearest = (values, time) => values.reduce((best, point) => Math.abs(point[0] - time) < Math.abs(best[0] - time) ? point : best);
  const show = () => {
    cross.hidden = false;
    cross.style.left = 100 * times[at] / span + "%";
    readout.textContent = times[at].toFixed(0) + " s: " + curves.map(([name, values]) => name + " " + said(nearest(values, times[at])[1])).join(", ");
  };
  plot.addEventListener("pointermove", event => {
    const box = plot.getBoundingClientRect(), time = span * (event.clientX - box.left) / box.width;
    at = times.reduce((best, value, index) => Math.abs(value - time) < Math.abs(times[best] - time) ? index : best, 0);
    show();
  });
  plot.addEventListener("keydown", event => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -times.length, End: times.length }[event.key];
    if (!by) return;
    event.preventDefault();
    at = Math.max(0, Math.min(times.length - 1, at + by));
    show();
  });
  for (const gone of ["pointerleave", "blur"]) plot.addEventListener(gone, () => { cross.hidden = true; readout.textContent = ""; });
}
for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    const command = button.parentNode.querySelector("pre");
    try { await navigator.clipboard.writeText(command.textContent); } catch {
      getSelection().selectAllChildren(command);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
let opened = [];
addEventListener("beforeprint", () => { opened = [...document.querySelectorAll("details:not([open])")]; opened.forEach(one => { one.open = true; }); });
addEventListener("afterprint", () => opened.forEach(one => { one.open = false; }));
