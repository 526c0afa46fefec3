import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { run, workIn } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'
import { evalConfig } from './temporary-workspace.ts'

const packages = path.resolve(import.meta.dirname, '../..')

/** What is linked into the workspace, as an installation has it. */
const installed = {
  '@openai/agents': 'openai-agents/node_modules/@openai/agents',
  '@osmosis/core': 'core',
  '@osmosis/openai-agents': 'openai-agents',
  '@osmosis/proxy': 'proxy',
  ai: 'ai-sdk/node_modules/ai',
  '@osmosis/ai-sdk': 'ai-sdk',
  zod: 'openai-agents/node_modules/zod',
}

const row = { user_prompt: 'How many?', ground_truth: '3', metadata: { answer: '3' } }

/** A workspace with this entrypoint, in which commands run from now on. */
export function migrated(main: string, dataset: readonly object[] = [row]): void {
  const root = temporaryFolder()
  for (const [name, place] of Object.entries(installed)) {
    const link = path.join(root, 'node_modules', name)
    mkdirSync(path.dirname(link), { recursive: true })
    symlinkSync(path.join(packages, place), link)
  }
  const dependencies = { '@osmosis/core': '*', '@osmosis/openai-agents': '*' }
  const files = {
    'package.json': JSON.stringify({ type: 'module', dependencies }),
    'rollouts/one/main.ts': main,
    'data/words.jsonl': dataset.map((each) => `${JSON.stringify(each)}\n`).join(''),
    'configs/eval/one.toml': evalConfig('one'),
  }
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true })
    writeFileSync(path.join(root, file), text)
  }
  workIn(root)
}

export interface Finding {
  readonly level: string
  readonly check: string
  readonly message: string
  readonly file?: string
  readonly line?: number
  readonly advice?: string
  readonly page?: string
}

/** What is not in order. */
export async function problems(env: Readonly<Record<string, string>> = {}): Promise<Finding[]> {
  return (await findings(env)).filter(({ level }) => level !== 'ok')
}

export async function findings(env: Readonly<Record<string, string>> = {}): Promise<Finding[]> {
  const { stdout, stderr } = await run(['validate', 'one', '--json'], env)
  if (stdout === '') throw new Error(stderr)
  const { rollouts } = JSON.parse(stdout) as { rollouts: { findings: Finding[] }[] }
  return rollouts.flatMap((each) => each.findings)
}

/** The line of a text in a source, counted from 1. */
export function lineOf(source: string, text: string): number {
  return source.slice(0, source.indexOf(text)).split('\n').length
}

export const page = (name: string): string => `node_modules/@osmosis/${name}`
export const main = 'rollouts/one/main.ts'

/** A workflow of the OpenAI Agents SDK, and a grader that reads the label. */
export function agents(
  body: string,
  top = '',
  grade = `ctx.setReward(ctx.label === '3' ? 1 : 0)`,
): string {
  return `import { Agent, run, tool } from '@openai/agents'
import { AgentWorkflow, defineWorkflowConfig, Grader } from '@osmosis/core'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { z } from 'zod'
${top}
export const config = defineWorkflowConfig({ name: 'one' })
const createAgent = (tools = []) => new OsmosisAgent({ name: 'one', model: new OsmosisRolloutModel(), tools })
export class One extends AgentWorkflow {
  async run(ctx) {
    ${body}
  }
}
export class Judge extends Grader {
  async grade(ctx) { ${grade} }
}
`
}

/** A workflow without a framework, which asks the policy with `ask(messages)`. */
export function loop(body: string, top = ''): string {
  return `import { AgentWorkflow, defineWorkflowConfig, Grader, requireRolloutContext } from '@osmosis/core'
${top}
export const config = defineWorkflowConfig({ name: 'one' })
export class One extends AgentWorkflow {
  async run(ctx) {
    const policy = requireRolloutContext('One').registerPolicySample('main')
    const ask = async (messages) => (await policy.complete({ messages })).choices[0].message
    ${body}
  }
}
export class Judge extends Grader {
  async grade(ctx) { ctx.setReward(1) }
}
`
}

export const session = `const session = new OsmosisMemorySession({ name: 'main' })`
export const asked = `await run(createAgent(), ctx.prompt, { session, signal: ctx.signal })`
