import { invalid } from '../../command/exit-codes.ts'
import { existsSync } from 'node:fs'
import path from 'node:path'

import { readEvalConfig, readRowTexts } from '@osmosis/eval'
import type { ItemEvent, RunManifest } from '@osmosis/eval/analysis'

import { resolvePath } from '../../command/command-context.ts'
import { digestOf } from '../../inputs/source-digest.ts'
import type { ShownRun } from '../show/shown-run.ts'

/**
 * The rows of the dataset that items are about, once each and in its order, as JSON.
 *
 * @param file - the dataset; undefined: where the run found it
 * @throws OsmosisError with code `invalid_config` when the dataset is not what the run had; `invalid_dataset`
 */
export async function rowTexts(
  { name, reader: { manifest } }: ShownRun,
  events: readonly ItemEvent[],
  file: string | undefined,
): Promise<string[]> {
  const wanted = new Set(events.map(({ source_row_index: row }) => row))
  const { dataset } = manifest.inputs
  const places = file === undefined ? await placesOf(manifest) : [resolvePath(file)]
  for (const place of places) {
    if (!existsSync(place) || (await digestOf([place])) !== dataset.sha256) continue
    return (await readRowTexts(place)).filter((_, row) => wanted.has(row))
  }
  throw invalid(
    `The rows of ${name} are in its dataset ${dataset.name}, which was moved or changed since. Pass it as it was, under its name, with --dataset <file>; looked for it as ${places.join(', ')}.`,
  )
}

/** Where the dataset of a run may be. */
async function placesOf({ inputs, provenance }: RunManifest): Promise<string[]> {
  const { root, resume, config } = provenance
  const folders = [resume?.folder, root].filter((folder) => folder !== undefined)
  const named = folders.map((folder) => path.resolve(folder, inputs.dataset.name))
  if (config === null || root === undefined) return [...new Set(named)]
  // A config that was removed or changed names no dataset.
  const read = await readEvalConfig(path.resolve(root, config)).catch(() => undefined)
  return [...new Set([...(read === undefined ? [] : [read.experiment.datasetFile]), ...named])]
}
