import { hash } from 'node:crypto'
import { lstat, mkdir } from 'node:fs/promises'
import path from 'node:path'

import { isPathSegment, OsmosisError } from '@osmosis/core'
import { beginningOf, errorTextBytes, longErrorTextBytes } from '@osmosis/core/http'

import { writeFileAtomically } from '../files/atomic-write.ts'
import { documentText, toText } from './document-text.ts'
import { toTrajectories, type EndedRollout } from './to-trajectories.ts'

/** Options of {@link writeTrajectories}. */
export interface WriteTrajectoriesOptions {
  /** Maximum size of a document, which says what was left out. Bytes; default 16 MiB. */
  readonly maxBytes?: number | undefined
}

const defaultMaxBytes = 16 * 1024 * 1024

/**
 * Writes the documents of a rollout to `<root>/<rolloutId>`, each atomically: `trajectory.json`, or with
 * several samples a `trajectory-<sample id>.json` each, and `diagnostics.json` when anything went wrong.
 * An id that cannot be the name of a folder is shortened, and its digest added. Tries to write all documents, even if one fails.
 *
 * @throws OsmosisError with code `storage_error` where the folder is a link; the first error of the file system, after all
 * have been tried
 */
export async function writeTrajectories(
  root: string,
  rollout: EndedRollout,
  { maxBytes = defaultMaxBytes }: WriteTrajectoriesOptions = {},
): Promise<void> {
  const folder = await rolloutFolder(root, rollout.rolloutId)
  const errors: unknown[] = []
  const attempt = async (name: string, text: () => string): Promise<void> => {
    try {
      // Losing a document in a power failure is cheaper than waiting for the disk in every rollout.
      await writeFileAtomically(path.join(folder, name), text(), {
        // Other users of this machine must not read prompts, labels and answers.
        mode: 0o600,
        sync: 'nothing',
      })
    } catch (error) {
      errors.push(error)
    }
  }
  const documents = toTrajectories(rollout)
  const names = documentNames(documents.map(({ sampleId }) => sampleId))
  for (const [index, { trajectory }] of documents.entries()) {
    await attempt(names[index] ?? 'trajectory.json', () => documentText(trajectory, maxBytes))
  }
  const diagnostics = diagnosticsOf(rollout)
  if (diagnostics) await attempt('diagnostics.json', () => toText(diagnostics))
  if (errors.length > 0) throw errors[0]
}

/** Refuses a link, which another user may have put there. */
async function rolloutFolder(root: string, rolloutId: string): Promise<string> {
  const folder = path.join(root, rolloutFolderName(rolloutId))
  await mkdir(folder, { recursive: true })
  if ((await lstat(folder)).isDirectory()) return folder
  throw new OsmosisError(
    'storage_error',
    `${folder} is a link instead of a folder, so no trajectory is written there. Remove the link, or choose another folder for trajectories.`,
  )
}

/**
 * The name of a rollout's folder: its id where that can be the name of a folder, else what of it can, with a digest. Two rollouts
 * never share a folder.
 */
export function rolloutFolderName(rolloutId: string): string {
  if (isPathSegment(rolloutId) && rolloutId.length <= longestFileName) return rolloutId
  return `${safeName(rolloutId)}-${hash('sha256', rolloutId, 'hex').slice(0, 16)}`
}

/** Distinct file names, also on file systems that ignore case. */
function documentNames(sampleIds: readonly (string | null)[]): string[] {
  if (sampleIds.length === 1) return ['trajectory.json']
  const taken = new Set<string>()
  return sampleIds.map((sampleId) => {
    const base = safeName(sampleId ?? '')
    let name = base
    for (let n = 2; taken.has(name.toLowerCase()); n += 1) name = `${base}-${n}`
    taken.add(name.toLowerCase())
    return `trajectory-${name}.json`
  })
}

/** Of file systems. Bytes. */
const longestFileName = 255
/** Leaves room for what is added to it. */
const longestName = 150

function safeName(id: string): string {
  const safe = id.replaceAll(/[^A-Za-z0-9._-]+/g, '_').replace(/^\.+/, '')
  return safe.slice(0, longestName) || 'unnamed'
}

/** Maximum number of failed calls in the diagnostics; the latest are shown. */
const mostCalls = 100

/** What helps to debug a rollout; null when nothing went wrong. */
function diagnosticsOf(rollout: EndedRollout): Record<string, unknown> | null {
  const { rolloutId, failures, warnings, samples } = rollout
  const failedCalls = [...samples].flatMap(([sampleId, { calls }]) =>
    calls.flatMap(({ error, startedAt, attempts }, index) => {
      if (error === null) return []
      const at = new Date(startedAt).toISOString()
      return [{ attempts, call: index, error: shown(error), sample_id: sampleId, started_at: at }]
    }),
  )
  if (failures.length + warnings.length + failedCalls.length === 0) return null
  return {
    failed_calls: failedCalls.slice(-mostCalls),
    failures: failures.map(({ phase, category, message }) => ({
      category,
      message: beginningOf(message, longErrorTextBytes),
      phase,
    })),
    rollout_id: rolloutId,
    warnings: warnings.map(shown),
  }
}

function shown(message: string): string {
  return beginningOf(message, errorTextBytes)
}
