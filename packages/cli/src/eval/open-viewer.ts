import { once } from 'node:events'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { listRuns, openRunFolder } from '@osmosis/eval'
import { exportReport, startViewer } from '@osmosis/viewer'

import { openBrowser, keepYoungGenerationSmall } from '../command/process.ts'
import {
  endSignal,
  isInteractive,
  namedHere,
  printError,
  printOut,
} from '../command/surroundings.ts'
import { findRun, runsRoot, assertVariant } from './show/shown-run.ts'
import type { EvalViewFlags } from './view.ts'

/** A run, and the name under which the page shows it first. */
interface Target {
  /** As the page names it, e.g. `my-run@strict`. */
  readonly name: string
  readonly location: string
  readonly variant?: string
}

/**
 * Serves the viewer until Ctrl-C, or writes a report. Resolves with the exit code.
 *
 * @throws OsmosisError with code `invalid_config` when there is no such run, `damaged_run`
 */
export async function evalViewCommand(
  name: string | undefined,
  flags: EvalViewFlags,
): Promise<number> {
  const root = await runsRoot(flags.output)
  if (flags.export === undefined) {
    return serve(
      root,
      name === undefined ? await onlyRunning(root) : await named(name, root),
      flags,
    )
  }
  if (name === undefined) {
    throw new OsmosisError(
      'invalid_config',
      'Name the run that is exported, or latest for the newest.',
    )
  }
  const { location, variant } = await named(name, root)
  const { export: file, transcripts } = flags
  const chosen = variant === undefined ? {} : { variant }
  const written = await exportReport({
    run: location,
    file: namedHere(file),
    transcripts,
    ...chosen,
  })
  const size = `${(written.bytes / 2 ** 20).toFixed(1)} MiB`
  const others = written.variants.map((each) => `, @${each}`).join('')
  printOut(
    `${written.file}: ${size}, ${written.rollouts} rollouts, ${written.transcripts} with their transcript${others}\n`,
  )
  return 0
}

async function serve(
  root: string,
  run: Target | undefined,
  { port, open }: EvalViewFlags,
): Promise<number> {
  keepYoungGenerationSmall()
  const signal = endSignal()
  const interrupted =
    signal === undefined
      ? Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')])
      : once(signal, 'abort')
  const viewer = await startViewer({
    root,
    ...(run === undefined ? {} : { runs: [run.location], run: run.name }),
    ...(port === undefined ? {} : { port }),
  })
  try {
    printOut(`${viewer.url}\n`)
    printError('Ctrl-C ends it.\n')
    if (open && isInteractive()) openBrowser(viewer.url)
    await interrupted
  } finally {
    await viewer.close()
  }
  return 0
}

async function named(name: string, root: string): Promise<Target> {
  const { location, variant } = await findRun(name, root)
  const own = path.basename(location)
  if (variant === undefined) return { name: own, location }
  await assertVariant(await openRunFolder(location), variant)
  return { name: `${own}@${variant}`, location, variant }
}

/** The running evaluation, which the page shows first; undefined when there is none, or several. */
async function onlyRunning(root: string): Promise<Target | undefined> {
  const readable = (await listRuns(root)).filter(({ problem }) => problem === null)
  const running: Target[] = []
  for (const { name, location } of readable) {
    if ((await openRunFolder(location)).writer() !== null) running.push({ name, location })
  }
  return running.length === 1 ? running[0] : undefined
}
