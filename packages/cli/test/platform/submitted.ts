import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { here } from '../in-process.ts'
import type { Finished } from '../osmosis.ts'
import { platformUser, type PlatformUser } from './on-platform.ts'

export const secret = 'planted-secret-value'

export const entrypoint = `
  import { AgentWorkflow, Grader } from '@osmosis/core'
  export class Echo extends AgentWorkflow { async run() {} }
  export class EchoGrader extends Grader { async grade() {} }
`
const sections = {
  eval: { folder: 'eval', text: '[evaluation]\nn = 4\n' },
  train: { folder: 'training', text: '[training]\nlr = 1e-6\n\n[sampling]\nrollout_top_p = 0.9\n' },
}

/** A user with a rollout and configs of both kinds. */
export async function author(
  main = entrypoint,
  required: readonly string[] = [],
): Promise<PlatformUser> {
  const user = await platformUser()
  mkdirSync(here('rollouts/echo'))
  mkdirSync(here('node_modules/@osmosis'), { recursive: true })
  const core = path.resolve(import.meta.dirname, '../../../core')
  symlinkSync(core, here('node_modules/@osmosis/core'))
  writeFileSync(here('rollouts/echo/main.ts'), main)
  for (const { folder, text } of Object.values(sections)) {
    writeFileSync(here(`configs/${folder}/echo.toml`), config(text, required))
  }
  return user
}

export function config(more: string, required: readonly string[] = [], experiment = ''): string {
  return `[experiment]
rollout = "echo"
entrypoint = "main.ts"
model_path = "Qwen/Qwen3"
dataset = "sums"
${experiment}
${more}
[env]
LOG_LEVEL = "debug"

[secrets]
required = ${JSON.stringify(required)}
`
}

/** The JSON documents on stderr. */
export function reports(finished: Finished): Record<string, { code?: string; details?: object }>[] {
  const lines = finished.stderr.split('\n').filter((line) => line !== '')
  return lines.map((line) => JSON.parse(line) as Record<string, { code?: string }>)
}
