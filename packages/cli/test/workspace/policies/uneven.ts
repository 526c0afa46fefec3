import { scriptedPolicy } from '@osmosis/controller'

/** Row 0 is solved by every run, row 1 by none, row 2 by the first run only. */
export const policy = scriptedPolicy(({ rolloutId }) => {
  const [, row, run] = /^eval-(\d)-run-(\d)-/.exec(rolloutId) ?? []
  const right = row === '0' || (row === '2' && run === '0')
  return right ? ({ 0: '5', 2: '31' }[Number(row)] ?? '') : 'no idea'
})
