'use strict';
(() => {
  // #data holds the content of the page. The choices last while the page is open. Each draw starts from both.
  let figures = JSON.parse(document.getElementById('data').textContent).figures;
  const root = document.documentElement;
  const chosen = {bins: null, 'lines-scale': 'linear', stretch: 'most', 'batches-by': 'time', 'batches-scale': 'linear'};
  const hidden = new Set();
  const probe = document.getElementById('probe');
  const coarse = matchMedia('(pointer: coarse)').matches;
  const prefersDark = matchMedia('(prefers-color-scheme: dark)');
  let printing = false;
  // The buttons are listed explicitly: one of plotly's default buttons could send the data to a third party.
  const CONFIG = {displaylogo: false, responsive: true, displayModeBar: coarse ? false : 'hover',
    modeBarButtons: [['zoom2d', 'pan2d', 'resetScale2d', 'toImage']]};

  const dark = () => !printing && (root.dataset.theme ? root.dataset.theme === 'dark' : prefersDark.matches);
  const colour = name => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
  const copy = value => JSON.parse(JSON.stringify(value));

  // Return the chosen bin length; before a choice, the shortest one that still gives a readable plot.
  function bin() {
    const {bins, start} = figures.lines.layout.meta;
    return bins.some(([each]) => each === Number(chosen.bins)) ? Number(chosen.bins) : start;
  }

  function offer() {
    const place = document.getElementById('bins');
    if (!figures.lines) return;
    const buttons = figures.lines.layout.meta.bins.map(([seconds, name]) => {
      const button = document.createElement('button');
      Object.assign(button, {type: 'button', textContent: name, ariaPressed: String(seconds === bin())});
      Object.assign(button.dataset, {choice: 'bins', value: seconds});
      return button;
    });
    const same = [...place.querySelectorAll('button')].map(each => each.textContent).join() === buttons.map(each => each.textContent).join();
    if (!same) place.replaceChildren(Object.assign(document.createElement('span'), {textContent: 'Bins'}), ...buttons);
  }

  function rebin(figure, seconds) {
    const size = seconds * 1000;
    if (seconds <= figure.layout.meta.seconds) return;
    const bars = figure.data.filter(trace => trace.meta.role !== 'errors');
    const starts = [...new Set(figure.data[0].x.map(at => Math.floor(at / size) * size))];
    const place = new Map(starts.map((start, at) => [start, at]));
    const all = starts.map(() => 0), errors = starts.map(() => 0);
    for (const trace of bars) {
      const sums = starts.map(() => 0);
      trace.x.forEach((at, i) => { sums[place.get(Math.floor(at / size) * size)] += trace.y[i]; });
      sums.forEach((sum, i) => { all[i] += sum; if (trace.meta.error) errors[i] += sum; });
      trace.x = starts; trace.y = sums; trace.width = size;
    }
    const share = figure.data.find(trace => trace.meta.role === 'errors');
    share.x = starts; share.y = starts.map((_, i) => 100 * errors[i] / Math.max(all[i], 1)); share.width = size;
    figure.layout.yaxis.title.text = `lines per ${figure.layout.meta.bins.find(([each]) => each === seconds)[1]}`;
    const [first, last] = figure.layout.xaxis.range;
    figure.layout.xaxis.range = [Math.floor(first / size) * size, Math.ceil(last / size) * size];
  }

  function dots(figure) {
    figure.layout.yaxis.type = 'log';
    for (const trace of figure.data.filter(trace => trace.meta.role !== 'errors')) {
      const half = trace.width / 2;
      Object.assign(trace, {type: 'scatter', mode: 'markers', x: trace.x.map(at => at + half), marker: {size: 5, color: ''}});
      delete trace.width; delete trace.offset;
    }
  }

  function shape(name, figure) {
    const layout = figure.layout;
    let revision = '';
    if (name === 'lines') {
      if (chosen.stretch === 'all') {
        const x = figure.data[0].x;
        layout.xaxis.range = [x[0], x[x.length - 1] + layout.meta.seconds * 1000];
      }
      rebin(figure, bin());
      if (chosen['lines-scale'] === 'log') dots(figure);   // stacked bars have no meaning on a log scale
      revision = chosen.stretch + bin();
    } else if (!name.startsWith('measure')) {
      const by = name === 'quality' ? (layout.meta.few ? 'batch' : 'time') : chosen['batches-by'];
      if (by === 'batch') {
        for (const trace of figure.data) trace.x = trace.customdata;
        layout.xaxis = {type: 'linear', title: {text: 'batch'}, tickformat: 'd', nticks: 8};
        if (name === 'quality') {
          const ids = figure.data[0].x;
          Object.assign(layout.xaxis, {type: 'category', range: [-0.6, Math.max(ids.length, 10) - 0.4]});
          if (ids.length <= 10) layout.xaxis.dtick = 1;
        }
      }
      if (name !== 'quality') {
        layout.yaxis.type = chosen['batches-scale'];
        for (const trace of figure.data) trace.visible = !hidden.has(trace.meta.stage);
      }
      revision = by;
    }
    layout.uirevision = revision;   // plotly keeps the zoom while this value stays the same
    layout.yaxis.uirevision = revision + (layout.yaxis.type || '');
  }

  function dress(figure, element) {
    const at = dark() ? 1 : 0, layout = figure.layout;
    for (const trace of figure.data) {
      trace.marker.color = trace.meta.colours[at];
      if (trace.line) trace.line.color = trace.meta.colours[at];
    }
    const ink = colour('ink'), soft = colour('soft'), grid = colour('grid'), card = colour('card'), line = colour('line');
    const wide = ['lines', 'quality'].includes(element.dataset.figure);
    const narrow = printing ? !wide : element.clientWidth < 560;
    Object.assign(layout, {
      font: {family: getComputedStyle(document.body).fontFamily, size: 12, color: soft},
      paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', height: layout.meta.height,
      margin: {l: narrow ? 48 : 58, r: 6, t: 8, b: 34}, dragmode: coarse ? false : 'zoom', separators: '.,',
      modebar: {bgcolor: 'rgba(0,0,0,0)', color: soft, activecolor: ink, orientation: 'h'},
      hoverlabel: {bgcolor: card, bordercolor: line, font: {color: ink, size: 12}, namelength: -1},
      legend: {orientation: 'h', x: 0, y: 1.02, yanchor: 'bottom', traceorder: 'normal', font: {color: ink}, itemclick: 'toggle'},
    });
    if (layout.showlegend !== false) layout.margin.t = 36;
    for (const key of Object.keys(layout).filter(key => /^[xy]axis/.test(key))) {
      Object.assign(layout[key], {gridcolor: grid, zerolinecolor: line, linecolor: line, tickcolor: line, automargin: true});
      layout[key].showgrid = key[0] === 'y';
      if (key[0] === 'x') Object.assign(layout[key], {nticks: narrow ? 4 : 8, ticks: 'outside', ticklen: 4, tickangle: 0});
      layout[key].title = Object.assign({standoff: 8, font: {size: 12, color: soft}}, layout[key].title);
    }
    if (layout.yaxis.type === 'log') { layout.yaxis.dtick = 'D2'; delete layout.yaxis.range; }
    if (printing) layout.width = wide ? 680 : 330;
    else layout.autosize = true;
  }

  function draw(only) {
    for (const element of document.querySelectorAll('.plot')) {
      const name = element.dataset.figure;
      if (only && !only(name)) continue;
      if (!figures[name]) { Plotly.purge(element); element.hidden = true; continue; }
      element.hidden = false;
      element.style.minHeight = `${figures[name].layout.meta.height}px`;
      const figure = copy(figures[name]);
      shape(name, figure);
      dress(figure, element);
      Plotly.react(element, figure.data, figure.layout,
        CONFIG);
    }
    offer();
    for (const controls of document.querySelectorAll('.controls')) {
      controls.hidden = !figures[controls.dataset.for === 'lines' ? 'lines' : 'seconds'];
    }
    for (const chip of document.querySelectorAll('[data-stage]')) chip.setAttribute('aria-pressed', String(!hidden.has(chip.dataset.stage)));
    for (const dot of document.querySelectorAll('[data-light]')) dot.style.background = dark() ? dot.dataset.dark : dot.dataset.light;
  }

  function words(seconds, units = ['d', 'h', 'min']) {
    const sizes = [86400, 3600, 60], at = sizes.findIndex(size => seconds >= size);
    if (at < 0) return `${Math.max(0, Math.floor(seconds))} s`;
    const count = Math.floor(seconds / sizes[at]);
    return `${count} ${units[at]}${units[at].length > 3 && count > 1 ? 's' : ''}`;
  }

  function tick() {
    const now = Date.now();
    for (const each of document.querySelectorAll('.ago')) {
      const seconds = (now - Number(each.dataset.at)) / 1000;
      const text = seconds <= -1 ? `${words(-seconds)} in the future` : `${words(seconds)} ago`;
      if (each.textContent !== text) each.textContent = text;
    }
    const age = (now - Number(document.body.dataset.at)) / 1000, place = document.getElementById('age');
    if (place) place.textContent = age > 300 && !document.body.dataset.liveNumber ? `this page is ${words(age, ['day', 'hour', 'minute'])} old` : '';
  }

  function fill() {
    for (const each of document.querySelectorAll('[data-width]')) each.style.width = `${each.dataset.width}%`;
  }

  document.addEventListener('click', event => {
    const button = event.target.closest('button');
    if (!button) return;
    if (button.id === 'theme') {
      root.dataset.theme = dark() ? 'light' : 'dark';
      draw();
    } else if (button.dataset.choice) {
      const group = button.dataset.choice;
      chosen[group] = button.dataset.value;
      for (const each of button.parentElement.querySelectorAll('button')) each.setAttribute('aria-pressed', String(each === button));
      draw(name => (name === 'lines') === !group.startsWith('batches') && name !== 'quality' && !name.startsWith('measure'));
    } else if (button.dataset.stage) {
      const stage = button.dataset.stage;
      if (!hidden.delete(stage)) hidden.add(stage);
      draw(name => name !== 'lines' && name !== 'quality' && !name.startsWith('measure'));
    }
  });
  prefersDark.addEventListener('change', () => draw());
  // A print is always in light mode.
  let before;
  addEventListener('beforeprint', () => { before = root.dataset.theme; root.dataset.theme = 'light'; printing = true; draw(); });
  addEventListener('afterprint', () => {
    if (before) root.dataset.theme = before; else delete root.dataset.theme;
    printing = false;
    draw();
  });

  // Highlight the visible section in the table of contents.
  const marks = new Map([...document.querySelectorAll('nav a')].map(link => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver(entries => {
    for (const entry of entries) if (entry.isIntersecting) {
      for (const [id, link] of marks) id === entry.target.id ? link.setAttribute('aria-current', 'true') : link.removeAttribute('aria-current');
    }
  }, {rootMargin: '-20% 0px -70% 0px'});
  for (const id of marks.keys()) seen.observe(document.getElementById(id));

  // A served page asks for updates. Its parts are replaced in place, so zoom and scroll position stay.
  async function look() {
    try {
      const answer = await fetch(`update?after=${document.body.dataset.liveNumber}`, {cache: 'no-store'});
      if (answer.status === 200) {
        const news = await answer.json();
        document.body.dataset.liveNumber = news.number;
        document.body.dataset.at = news.at_ms;
        document.title = news.title;
        for (const [id, html] of Object.entries(news.parts)) document.getElementById(`part-${id}`).innerHTML = html;
        figures = news.figures;
        fill(); draw();
      }
      root.removeAttribute('data-away');
    } catch { root.dataset.away = 'true'; }
    tick();
    setTimeout(look, 2000);
  }

  fill(); draw(); tick();
  setInterval(tick, 10000);
  if (document.body.dataset.liveNumber) setTimeout(look, 2000);
})();
