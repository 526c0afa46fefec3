import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'

/** Reads FIFOs without a writer, as code of users does with files that a model made. */
export class FrozenWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const fifo = path.join(await ctx.workFolder(), 'fifo')
    execFileSync('mkfifo', [fifo])
    const { FROZEN } = process.env
    console.log('frozen')
    if (FROZEN === 'loop') setImmediate(() => readFileSync(fifo))
    const threads = FROZEN === 'one' ? 1 : FROZEN === 'loop' ? 0 : 8
    await Promise.all(Array.from({ length: threads }, async () => readFile(fifo)))
    await new Promise(() => {})
  }
}
