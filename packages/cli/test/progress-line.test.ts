import { expect, it } from 'vitest'

import { ProgressLine } from '../src/eval/run/run-output.ts'

it('a run that waits for its policy says so, once for all calls that do', () => {
  let printed = ''
  const output = { write: (text: string) => (printed += text) }
  const progress = new ProgressLine(output, {
    passThreshold: 1,
    scoreName: undefined,
    earlier: [],
  })
  progress.wait(500, 429)
  progress.wait(30_000, 429)
  progress.wait(30_000, 429)
  expect(printed).toBe('The policy limits the rate of calls (429): waiting 30.0 s.\n')
})
