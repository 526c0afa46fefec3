import type { JSX } from 'preact'

import type { RunSummary } from '../../src/wire.ts'
import { margin, percent, points } from '../format.ts'
import { hrefOf } from '../route.ts'

const ticks = [0, 0.25, 0.5, 0.75, 1]

/** The pass rates of runs with their 95 % intervals, one above the other on one axis. */
export function RunPlot({ runs }: { runs: readonly RunSummary[] }): JSX.Element {
  return (
    <section class="card run-plot" aria-label="Pass rates of the marked runs">
      <h2>Pass rate of the marked runs, with 95 % intervals</h2>
      {runs.map((run) => (
        <PlotLine key={run.name} run={run} />
      ))}
      <div class="plot-line" aria-hidden="true">
        <span />
        <span class="axis">
          {ticks.map((tick) => (
            <span key={tick} style={{ left: `${100 * tick}%` }}>
              {percent(tick, 0)}
            </span>
          ))}
        </span>
        <span />
      </div>
    </section>
  )
}

/** The place of a share on the axis. */
function at(share: number): string {
  return `${100 * Math.min(1, Math.max(0, share))}%`
}

function PlotLine({ run }: { run: RunSummary }): JSX.Element {
  const { name, model, passRate, passInterval } = run
  const [low, high] = passInterval ?? [passRate ?? 0, passRate ?? 0]
  return (
    <div class="plot-line">
      <a href={hrefOf({ page: 'run', run: name })} title={model}>
        {name}
      </a>
      <span class="range">
        {passRate !== null && (
          <>
            <i style={{ left: at(low), right: `calc(100% - ${at(high)})` }} />
            <b style={{ left: at(passRate) }} />
          </>
        )}
      </span>
      <span class="value">
        {percent(passRate)}{' '}
        <span class="dim">
          {passRate !== null && passInterval !== null && margin(passRate, passInterval, points)}
        </span>
      </span>
    </div>
  )
}
