import { type BehaviourChange, halfWidth } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import { signed } from '../format.ts'

/** Behaviour before and after; significant changes are bold. */
export function Behaviour({
  list,
  names,
}: {
  list: readonly BehaviourChange[]
  names: readonly [before: string, after: string]
}): JSX.Element {
  const [before, after] = shortNames(names)
  return (
    <section class="card">
      <table class="behaviour">
        <thead>
          <tr>
            <th>Behaviour</th>
            <th title={names[0]}>{before}</th>
            <th title={names[1]}>{after}</th>
            <th>Change</th>
          </tr>
        </thead>
        <tbody>
          {list.map((change) => (
            <BehaviourLine key={change.key} change={change} />
          ))}
        </tbody>
      </table>
    </section>
  )
}

function BehaviourLine({ change }: { change: BehaviourChange }): JSX.Element {
  const { title, unit, difference } = change
  const factor = unit === 'share' ? 100 : 1
  const digits = unit === 'usd' ? 4 : 1
  const suffix = unit === 'share' ? ' %' : ''
  const half = halfWidth(difference)
  const value = difference.value ?? 0
  const isSure = half !== null && Math.abs(value) > half
  const text = (amount: number): string => (factor * amount).toFixed(digits) + suffix
  return (
    <tr>
      <td>{title}</td>
      <td>{text(change.before)}</td>
      <td>{text(change.after)}</td>
      <td class={isSure ? 'sure' : 'dim'}>
        {signed(factor * value, digits)}
        {half !== null && ` ± ${(factor * half).toFixed(digits)}`}
      </td>
    </tr>
  )
}

/** The names without their common beginning. */
export function shortNames([a, b]: readonly [string, string]): readonly [string, string] {
  const [runA, variantA = 'run'] = a.split('@')
  const [runB, variantB = 'run'] = b.split('@')
  if (runA === runB && a !== b) return [variantA, variantB]
  const partsA = a.split(/(?<=[-_@./ ])/)
  const partsB = b.split(/(?<=[-_@./ ])/)
  let same = 0
  while (partsA[same] !== undefined && partsA[same] === partsB[same]) same += 1
  const short = (parts: string[], whole: string): string => parts.slice(same).join('') || whole
  return a === b ? ['before', 'after'] : [short(partsA, a), short(partsB, b)]
}
