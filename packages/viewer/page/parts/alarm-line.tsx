import type { JSX } from 'preact'

/** The alarms of the line above, over the whole width of its table; nothing without any. */
export function AlarmLine({
  alarms,
  columns,
}: {
  alarms: readonly string[]
  columns: number
}): JSX.Element | null {
  if (alarms.length === 0) return null
  return (
    <tr class="alarms-of">
      <td colSpan={columns}>
        <div class="in-view">
          {alarms.map((alarm) => (
            <p key={alarm} class="alarm">
              {alarm}
            </p>
          ))}
        </div>
      </td>
    </tr>
  )
}
