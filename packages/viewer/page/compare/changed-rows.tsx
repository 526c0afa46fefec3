import { rolloutName, type Comparison, type RowChange } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import { oneLine, signed } from '../format.ts'
import { Dots } from '../parts/dot.tsx'
import { VirtualList } from '../parts/virtual-list.tsx'
import { hrefOf } from '../route.ts'
import type { DisplayedRun } from '../run/use-run.ts'
import { shortNames } from './behaviour.tsx'

/** The rows that both runs have, the largest losses first; each opens where its attempts part. */
export function ChangedRows({
  before,
  after,
  comparison,
}: {
  before: DisplayedRun
  after: DisplayedRun
  comparison: Comparison
}): JSX.Element {
  const [a, b] = shortNames([before.name, after.name])
  const { rows } = comparison
  return (
    <section class="list changed" aria-label="Rows and their change">
      <div class="bar">
        <h2 class="count">Rows both have, the largest losses first</h2>
      </div>
      <div class="head">
        <span>Row</span>
        <span title={before.name}>{a}</span>
        <span title={after.name}>{b}</span>
        <span class="end">Change</span>
        <span>Ends with, after</span>
      </div>
      <VirtualList
        count={rows.length}
        focus={-1}
        role="region"
        label="Rows, the largest losses first"
        render={(index, top) => {
          const row = rows[index]
          return row && <ChangedRow key={row.key} {...{ before, after, row, top }} />
        }}
      />
    </section>
  )
}

function ChangedRow({
  before,
  after,
  row,
  top,
}: {
  before: DisplayedRun
  after: DisplayedRun
  row: RowChange
  top: number
}): JSX.Element {
  const { table } = after
  const { items } = row.b
  const item = items.find((each) => !table.passed(each)) ?? items[0] ?? 0
  const { attempt, summary } = table.document.columns
  const href = hrefOf({
    page: 'run',
    run: after.name,
    selected: rolloutName({ source_row_index: row.b.row, run_index: attempt[item] ?? 0 }),
    divergence: items.length > 1,
  })
  const tone = row.change > 0 ? ' up' : row.change < 0 ? ' down' : ''
  return (
    <a class="line" href={href} style={{ top: `${top}px` }}>
      <span>{row.b.row}</span>
      <Dots table={before.table} items={row.a.items} />
      <Dots table={table} items={items} />
      <span class={`change${tone}`}>{row.change === 0 ? '0' : signed(100 * row.change, 0)}</span>
      <span class="text">{oneLine(summary[item] ?? '')}</span>
    </a>
  )
}
