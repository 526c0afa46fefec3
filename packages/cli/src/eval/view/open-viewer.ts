import { once } from 'node:events'
import path from 'node:path'

import { listRuns, listTrainings, openRunFolder, trainingWriter } from '@osmosis/eval'
import { exportReport, startViewer, type ViewerOptions } from '@osmosis/viewer'

import {
  endSignal,
  isInteractive,
  displayPath,
  printError,
  printOut,
} from '../../command/command-context.ts'
import { openBrowserAt, keepYoungGenerationSmall } from '../../command/process.ts'
import { invalid } from '../../command/wrong-use.ts'
import { canRegrade, regradeForPage } from '../regrade/regrade-run.ts'
import { findRun, runsRoot, assertVariant } from '../show/shown-run.ts'
import { findTraining, trainingsRoot } from '../training/find-training.ts'
import type { EvalViewFlags } from '../view.ts'

/** A run, and the name under which the page shows it first. */
interface Target {
  /** As the page names it, e.g. `my-run@strict` or `my-training/step-0007`. */
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
    const training = name === undefined ? undefined : await findTraining(name, root)
    if (training !== undefined) {
      const { location } = training
      return serve({ trainings: [location], training: training.name }, root, flags)
    }
    return serve(
      name === undefined ? await onlyRunning(root) : placesOf(await named(name, root)),
      root,
      flags,
    )
  }
  if (name === undefined) {
    throw invalid('Name the run that is exported, or latest for the newest.')
  }
  const { location, variant } = await named(name, root)
  const { export: file, transcripts } = flags
  const chosen = variant === undefined ? {} : { variant }
  const written = await exportReport({
    run: location,
    file: displayPath(file),
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

/** A run of a training is found by its name; others may be anywhere. */
function placesOf({ name, location }: Target): Partial<ViewerOptions> {
  return name.includes('/') ? { run: name } : { runs: [location], run: name }
}

async function serve(
  places: Partial<ViewerOptions>,
  root: string,
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
    trainingRoot: trainingsRoot(root),
    regrade: regradeForPage,
    canRegrade,
    ...places,
    ...(port === undefined ? {} : { port }),
  })
  let opened: AsyncDisposable | undefined
  try {
    printOut(`${viewer.url}\n`)
    printError('Ctrl-C ends it.\n')
    if (open && isInteractive()) opened = await openBrowserAt(viewer.url)
    await interrupted
  } finally {
    await opened?.[Symbol.asyncDispose]()
    await viewer.close()
  }
  return 0
}

async function named(name: string, root: string): Promise<Target> {
  const { location, variant } = await findRun(name, root)
  const isOfTraining = path.dirname(location).startsWith(`${trainingsRoot(root)}${path.sep}`)
  const own = isOfTraining
    ? `${path.basename(path.dirname(path.dirname(location)))}/${path.basename(location)}`
    : path.basename(location)
  if (variant === undefined) return { name: own, location }
  await assertVariant(await openRunFolder(location), variant)
  return { name: `${own}@${variant}`, location, variant }
}

/** The running evaluation or training, which the page shows first; none when there are several. */
async function onlyRunning(root: string): Promise<Partial<ViewerOptions>> {
  const readable = (await listRuns(root)).filter(({ problem }) => problem === null)
  const running: Target[] = []
  for (const { name, location } of readable) {
    if ((await openRunFolder(location)).writer() !== null) running.push({ name, location })
  }
  const trainings = (await listTrainings(trainingsRoot(root))).filter(
    ({ location }) => trainingWriter(location) !== null,
  )
  const [[run], [training]] = [running, trainings]
  if (running.length + trainings.length !== 1) return {}
  return training === undefined
    ? run === undefined
      ? {}
      : placesOf(run)
    : { training: training.name }
}
