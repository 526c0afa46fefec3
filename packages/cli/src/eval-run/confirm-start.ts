import { createInterface } from 'node:readline/promises'

import { formatCount } from '@osmosis/eval'

import type { EvalRunFlags } from './eval-commands.ts'
import { isInteractive, standardError, standardInput } from '../surroundings.ts'

/** So many rollouts cost enough to be asked about. */
const manyRollouts = 1000

/** Asks the person at the terminal before very many rollouts are started; true where nobody is. */
export async function confirmStart(
  pending: number,
  { yes = false, json = false }: EvalRunFlags,
  signal: AbortSignal,
): Promise<boolean> {
  if (yes || json || pending < manyRollouts) return true
  if (!isInteractive()) return true
  const lines = createInterface({ input: standardInput(), output: standardError() })
  // The terminal gives Ctrl-C to the reader of lines.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  try {
    const said = await lines.question(`Start ${formatCount(pending)} rollouts? [Y/n] `, { signal })
    return /^(?:y(?:es)?)?$/i.test(said.trim())
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    lines.close()
  }
}
