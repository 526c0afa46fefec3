import type { TrainingPoint } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import { scaled } from '../media/text-size.ts'
import { useWidth } from './plot.tsx'
import { type LinearScale, scaleOf, ticksOf } from './scale.ts'

/** A figure over the steps. */
export interface ChartLine {
  readonly name: string
  /** Its class in the style sheet, which gives the colour. */
  readonly tone: 'first' | 'second' | 'third'
  /** `points`: values far apart, that no line joins. */
  readonly shape: 'line' | 'points'
  readonly points: readonly TrainingPoint[]
}

/** The steps of a chart, and what a click or the pointer does to one. */
export interface ChartSteps {
  /** The first and the last step on the x axis. */
  readonly steps: readonly [first: number, last: number]
  /** The step whose values are read; null for none. */
  readonly at: number | null
  readonly onPoint: (step: number | null) => void
  readonly onOpen: (step: number) => void
}

interface LineChartProps extends ChartSteps {
  readonly label: string
  readonly lines: readonly ChartLine[]
  /** Pixels at the usual size of text. */
  readonly height: number
  /** Text of a value on the y axis. */
  readonly text: (value: number) => string
  /** The least range of the y axis. */
  readonly range?: readonly [low: number, high: number]
  /** Steps that are marked on the x axis. */
  readonly marked?: readonly number[]
  /** A value that is still being measured, drawn hollow behind the first line. */
  readonly pending?: TrainingPoint | undefined
}

/** Room for the texts of the axes. Pixels at the usual size of text. */
const room = { left: 52, right: 12, top: 8, bottom: 20 }

/** Lines over the steps, with their intervals, axes, and the step under the pointer. */
export function LineChart(props: LineChartProps): JSX.Element {
  const { label, lines, steps, text, at, onPoint, onOpen, marked = [], pending } = props
  const height = scaled(props.height)
  const edge = {
    left: scaled(room.left),
    right: scaled(room.right),
    top: scaled(room.top),
    bottom: scaled(room.bottom),
  }
  const [box, width] = useWidth<HTMLDivElement>()
  const [first, last] = steps
  const all = [
    ...lines.flatMap(({ points }) => points),
    ...(pending === undefined ? [] : [pending]),
  ]
  const values = all.map(({ value }) => value)
  const [low, high] = props.range ?? [0, 0]
  const x = scaleOf([first, Math.max(last, first + 1)], [edge.left, width - edge.right])
  const vertical = ticksOf(
    Math.min(low, ...values),
    Math.max(high, ...values),
    props.height < 100 ? 2 : 4,
  )
  const [floor, ceiling] = [vertical[0] ?? 0, vertical.at(-1) ?? 1]
  const whole = scaleOf([floor, ceiling], [height - edge.bottom, edge.top])
  // Intervals may be wider than what values can be.
  const y = { ...whole, at: (value: number) => whole.at(Math.min(ceiling, Math.max(floor, value))) }
  const stepAt = (event: MouseEvent): number => {
    const left = box.current?.getBoundingClientRect().left ?? 0
    const step = Math.round(x.invert(event.clientX - left))
    return Math.min(last, Math.max(first, step))
  }
  return (
    <div
      class="chart"
      ref={box}
      style={{ height: `${height}px` }}
      onMouseMove={(event) => onPoint(stepAt(event))}
      onMouseLeave={() => onPoint(null)}
      onClick={(event) => onOpen(stepAt(event))}
    >
      {width > 0 && (
        <svg
          width={width}
          height={height}
          viewBox={`0 0 ${width} ${height}`}
          role="img"
          aria-label={label}
        >
          {vertical.map((tick) => (
            <g key={tick} class={tick === 0 ? 'axis zero' : 'axis'}>
              <line x1={edge.left} x2={width - edge.right} y1={y.at(tick)} y2={y.at(tick)} />
              <text x={edge.left - 6} y={y.at(tick) + scaled(3.5)} text-anchor="end">
                {text(tick)}
              </text>
            </g>
          ))}
          {wholeTicks(first, last, width).map((step) => (
            <text
              key={step}
              class="step"
              x={x.at(step)}
              y={height - scaled(5)}
              text-anchor="middle"
            >
              {step}
            </text>
          ))}
          {marked.map((step) => (
            <path
              key={step}
              class="mark"
              d={`M${x.at(step) - 4} ${height - edge.bottom} h8 l-4 -7 z`}
            />
          ))}
          {at !== null && (
            <line
              class="cursor"
              x1={x.at(at)}
              x2={x.at(at)}
              y1={edge.top}
              y2={height - edge.bottom}
            />
          )}
          {lines.map((line) => (
            <Line key={line.name} line={line} x={x} y={y} at={at} />
          ))}
          {pending !== undefined && <Pending point={pending} line={lines[0]} x={x} y={y} />}
        </svg>
      )}
    </div>
  )
}

interface Drawn {
  readonly x: LinearScale
  readonly y: LinearScale
}

function Line({ line, x, y, at }: Drawn & { line: ChartLine; at: number | null }): JSX.Element {
  const { points, tone, shape } = line
  const band = points.filter(({ interval }) => interval !== null)
  const upper = band.map(({ step, interval }) => `${x.at(step)},${y.at(interval?.[1] ?? 0)}`)
  const lower = band.map(({ step, interval }) => `${x.at(step)},${y.at(interval?.[0] ?? 0)}`)
  return (
    <g class={`series ${tone}`}>
      {shape === 'line' && band.length > 1 && (
        <polygon points={[...upper, ...lower.toReversed()].join(' ')} />
      )}
      {shape === 'points' &&
        band.map(({ step, interval }) => (
          <line
            key={step}
            x1={x.at(step)}
            x2={x.at(step)}
            y1={y.at(interval?.[0] ?? 0)}
            y2={y.at(interval?.[1] ?? 0)}
          />
        ))}
      {shape === 'line' && (
        <polyline
          points={points.map(({ step, value }) => `${x.at(step)},${y.at(value)}`).join(' ')}
        />
      )}
      {points.map(
        ({ step, value }) =>
          (shape === 'points' || points.length <= maxDots || step === at) && (
            <circle
              key={step}
              class={step === at ? 'here' : ''}
              cx={x.at(step)}
              cy={y.at(value)}
              r={step === at || shape === 'points' ? 4 : 2.5}
            />
          ),
      )}
    </g>
  )
}

/** A line with more points shows no dots. */
const maxDots = 80

/** What is measured now, joined to the last point by dashes. */
function Pending({
  point,
  line,
  x,
  y,
}: Drawn & { point: TrainingPoint; line: ChartLine | undefined }): JSX.Element {
  const before = line?.points.at(-1)
  const [cx, cy] = [x.at(point.step), y.at(point.value)]
  return (
    <g class={`series pending ${line?.tone ?? 'first'}`}>
      {before !== undefined && (
        <line x1={x.at(before.step)} y1={y.at(before.value)} x2={cx} y2={cy} />
      )}
      <circle cx={cx} cy={cy} r="4" />
    </g>
  )
}

/** Whole steps that fit beside one another. */
function wholeTicks(first: number, last: number, width: number): number[] {
  const most = Math.max(2, Math.floor(width / scaled(70)))
  const ticks = ticksOf(first, last, most).filter(
    (tick) => Number.isInteger(tick) && tick >= first && tick <= last,
  )
  return ticks.length > 0 ? ticks : [first]
}
