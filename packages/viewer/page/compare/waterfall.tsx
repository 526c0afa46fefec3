import type { RowChange } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import { counted } from '../format.ts'
import { type Draw, Plot } from '../parts/plot.tsx'
import { colour } from '../theme.ts'

/** Every row by its change, from the worst to the best. */
export function Waterfall({
  rows,
  look,
}: {
  rows: readonly RowChange[]
  look: string
}): JSX.Element {
  const draw: Draw = (canvas, width, height) => {
    canvas.fillStyle = colour('line-strong')
    canvas.fillRect(0, height / 2, width, 1)
    const step = width / rows.length
    const tones = { up: colour('pass'), down: colour('fail') }
    for (const [index, { change }] of rows.entries()) {
      canvas.fillStyle = change > 0 ? tones.up : tones.down
      const length = (Math.abs(change) * height) / 2
      const top = change > 0 ? height / 2 - length : height / 2
      // To whole pixels of the screen: bars side by side make no seams.
      const left = Math.floor(index * step * devicePixelRatio) / devicePixelRatio
      const right = Math.ceil((index + 1) * step * devicePixelRatio) / devicePixelRatio
      canvas.fillRect(left, top, right - left, length)
    }
  }
  const better = rows.filter(({ change }) => change > 0).length
  const worse = rows.filter(({ change }) => change < 0).length
  return (
    <section class="card">
      <h2>Every row by its change, from the worst to the best</h2>
      <div class="waterfall">
        <Plot
          draw={draw}
          inputs={[rows, look]}
          label={`Of ${counted(rows.length, 'row')} ${worse} are worse and ${better} better`}
        />
      </div>
    </section>
  )
}
