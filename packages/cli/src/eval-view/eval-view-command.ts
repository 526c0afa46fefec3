import { once } from 'node:events'
import { existsSync } from 'node:fs'
import path from 'node:path'

import { defaultOutputRoot, findWorkspaceRoot, listRuns, openRunFolder } from '@osmosis/eval'
import { exportReport, startViewer } from '@osmosis/viewer'

import { openBrowser } from '../open-browser.ts'
import { isInteractive } from '../platform/ask.ts'
import type { EvalViewFlags } from './eval-view-options.ts'

/** What was asked for: the folder of runs, and one of them. */
interface Target {
  readonly root: string
  /** Undefined for the list. */
  readonly run: { readonly name: string; readonly location: string } | undefined
}

/**
 * Serves the viewer until Ctrl-C, or writes a report. Resolves with the exit code: 0, and 2 when there
 * is no such run.
 */
export async function evalViewCommand(
  name: string | undefined,
  flags: EvalViewFlags,
): Promise<number> {
  const target = await findTarget(name, flags.output)
  if (typeof target === 'string') {
    process.stderr.write(`error: ${target}\n`)
    return 2
  }
  if (flags.export === undefined) return serve(target, flags)
  if (name === undefined || target.run === undefined) {
    process.stderr.write('error: Name the run that is exported.\n')
    return 2
  }
  const { location } = target.run
  const { export: file, transcripts } = flags
  const written = await exportReport({ run: location, file, transcripts })
  const size = `${(written.bytes / 2 ** 20).toFixed(1)} MiB`
  process.stdout.write(
    `${written.file}: ${size}, ${written.rollouts} rollouts, ${written.transcripts} with their transcript\n`,
  )
  return 0
}

async function serve({ root, run }: Target, { port, open }: EvalViewFlags): Promise<number> {
  const interrupted = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')])
  const viewer = await startViewer({
    root,
    ...(run === undefined ? {} : { runs: [run.location], run: run.name }),
    ...(port === undefined ? {} : { port }),
  })
  try {
    process.stdout.write(`${viewer.url}\n`)
    process.stderr.write('Ctrl-C ends it.\n')
    if (open && isInteractive()) openBrowser(viewer.url)
    await interrupted
  } finally {
    await viewer.close()
  }
  return 0
}

/** A sentence when there is no such run. */
async function findTarget(
  name: string | undefined,
  output: string | undefined,
): Promise<Target | string> {
  // The search begins in the folder of a file.
  const workspace = (await findWorkspaceRoot(path.resolve('file'))) ?? process.cwd()
  const root = path.resolve(output ?? defaultOutputRoot(workspace))
  if (name === undefined) return { root, run: await onlyRunning(root) }
  const folder = path.resolve(name)
  if (existsSync(path.join(folder, 'manifest.json'))) {
    return { root, run: { name: path.basename(folder), location: folder } }
  }
  const runs = await listRuns(root)
  const found = runs.find((run) => run.name === name.split('@')[0])
  if (found !== undefined) return { root, run: { name, location: found.location } }
  const known = runs.slice(0, 8).map((run) => run.name)
  const others = known.length === 0 ? 'none is there' : `there are ${known.join(', ')}`
  return `There is no run ${name} in ${root}; ${others}.`
}

/** The run that goes on at the moment, which is what one wants to see; undefined for none and several. */
async function onlyRunning(root: string): Promise<Target['run']> {
  const readable = (await listRuns(root)).filter(({ problem }) => problem === null)
  const running: NonNullable<Target['run']>[] = []
  for (const { name, location } of readable) {
    if ((await openRunFolder(location)).writer() !== null) running.push({ name, location })
  }
  return running.length === 1 ? running[0] : undefined
}
