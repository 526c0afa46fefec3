import { readFileSync } from 'node:fs'
import path from 'node:path'

import { main } from '@osmosis/cli'
import { beforeAll, onTestFinished, vi } from 'vitest'

import { temporaryFolder, workspace, type Finished } from './osmosis.ts'

/** Lets the commands of a test file run where a user would call them: in the test workspace. */
export function inWorkspace(): void {
  beforeAll(() => {
    const folder = process.cwd()
    process.chdir(workspace)
    return () => process.chdir(folder)
  })
}

/**
 * Runs the `osmosis` command in this process, for what is not about processes.
 *
 * @param folder - where it is called. Default: where this process is.
 */
export async function run(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  folder?: string,
): Promise<Finished> {
  // Some tests remove the folder that they are in.
  const before = folder === undefined ? undefined : process.cwd()
  if (folder !== undefined) process.chdir(folder)
  const output = { stdout: '', stderr: '' }
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value)
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      output[name] += String(text)
      return true
    }),
  )
  const release = (): void => {
    for (const spy of spies) spy.mockRestore()
    vi.unstubAllEnvs()
    if (before !== undefined) process.chdir(before)
  }
  onTestFinished(release)
  try {
    const code = await main(args)
    return { code: code ?? null, ...output }
  } finally {
    release()
  }
}

/** What a run wrote. */
export interface Results {
  /** Of `index.jsonl`. */
  readonly records: readonly Record<string, unknown>[]
  readonly run: Record<string, unknown>
  readonly summary: Record<string, unknown> & { scores?: Record<string, unknown> }
  readonly baseline: (Record<string, unknown> & { scores?: Record<string, unknown> }) | undefined
}

/** Reads the files of a run. JSON.parse takes no NaN. */
export function readResults(folder: string): Results {
  const text = (name: string): string => readFileSync(path.join(folder, name), 'utf8')
  const metrics = JSON.parse(text('metrics.json')) as {
    eval_run: Results['run']
    summary: Results['summary']
    baseline_summary?: Results['baseline']
  }
  const lines = text('index.jsonl').split('\n')
  return {
    records: lines
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>),
    run: metrics.eval_run,
    summary: metrics.summary,
    baseline: metrics.baseline_summary,
  }
}

/** An evaluation that has ended, and what it wrote. */
export type Evaluated = Finished & Results

/** An environment in which a loop does not ask again for what was refused. */
const noRetries = { OSMOSIS_ROLLOUT_CLIENT_MAX_RETRIES: '0' }

/**
 * Runs `osmosis eval run` and reads what it wrote.
 *
 * @param flags - words of the command line, with spaces between them
 */
export async function evaluate(...flags: readonly string[]): Promise<Evaluated> {
  const args = flags.flatMap((words) => words.split(' '))
  const output = temporaryFolder()
  const place = ['--output', path.join(output, 'made/on/demand'), '--name', 'run']
  const finished = await run(['eval', 'run', ...args, ...place], noRetries)
  return { ...finished, ...readResults(path.join(output, 'made/on/demand/run')) }
}
