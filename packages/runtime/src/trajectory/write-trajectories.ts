import { lstat, mkdir } from 'node:fs/promises'
import path from 'node:path'

import { writeFileAtomically } from '../files/atomic-write.ts'
import { beginningOf, errorTextBytes, longErrorTextBytes } from '@osmosis/core/http'
import { isPathSegment } from '@osmosis/core'
import { documentText, toText } from './document-text.ts'
import { toTrajectories, type EndedRollout } from './to-trajectories.ts'

/** Options of {@link writeTrajectories}. */
export interface WriteTrajectoriesOptions {
  /** Largest document; what does not fit is left out, and the document says so. Bytes; default 16 MiB. */
  readonly maxBytes?: number | undefined
}

const defaultMaxBytes = 16 * 1024 * 1024

/**
 * Writes the documents of a rollout to `<root>/<rolloutId>`, each whole or not at all:
 * `trajectory.json`, or with several samples a `trajectory-<sample id>.json` each, and
 * `diagnostics.json` when anything went wrong. One that cannot be written keeps no other from it.
 *
 * @throws the first error of the file system, when all have been tried
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
      // A lost document is a pity; waiting for the disk of every rollout would be a bigger one.
      await writeFileAtomically(path.join(folder, name), text(), {
        // Prompts, labels and what the policy said are nobody else's business on this machine.
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

/** A folder that somebody else put a link in the place of is not written to. */
async function rolloutFolder(root: string, rolloutId: string): Promise<string> {
  const folder = path.join(root, isPathSegment(rolloutId) ? rolloutId : safeName(rolloutId))
  await mkdir(folder, { recursive: true })
  if ((await lstat(folder)).isDirectory()) return folder
  throw new Error(`${folder} is not a folder but a link: no trajectory is written there.`)
}

/** File names, no two of which are the same, even where case makes no difference. */
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

/** File systems take 255 bytes, of which the name around it needs some. */
const longestName = 150

function safeName(id: string): string {
  const safe = id.replaceAll(/[^A-Za-z0-9._-]+/g, '_').replace(/^\.+/, '')
  return safe.slice(0, longestName) || 'unnamed'
}

/** The latest failed calls that are shown. */
const mostCalls = 100

/** What people ask first when a rollout went wrong; null when nothing did. */
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
