import { existsSync } from 'node:fs'
import { mkdir, open, readdir } from 'node:fs/promises'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { readLines, writeFileAtomically } from '@osmosis/protocol/files'

import type { AuditVerdict } from '../analysis/records/audit-finding.ts'
import { type RunNote, itemKey, type ItemReference } from '../analysis/records/item-event.ts'
import { fileMode, folderMode, runFiles, storageError } from './run-files.ts'

/** The result of re-grading an item. */
export interface Grade extends ItemReference {
  readonly rollout_id: string
  /** The mean over the samples in training. Null when there is none; `error` says why, unless skipped. */
  readonly reward: number | null
  /** All samples were removed from training. Default: false. */
  readonly skipped?: true
  /** The reward of each sample by its id; null for one without. */
  readonly samples?: Readonly<Record<string, number | null>>
  /** Metrics that the grader gave the samples; with several samples the mean of each. */
  readonly metrics?: Readonly<Record<string, number>>
  readonly error: string | null
  /** Default: `grader_failed`. */
  readonly error_type?: string
}

export async function readNotes(location: string): Promise<RunNote[]> {
  return (await readAll(runFiles(location).notes)) as RunNote[]
}

export async function appendNote(location: string, note: Omit<RunNote, 'at'>): Promise<RunNote> {
  const whole = { ...note, at: new Date().toISOString() }
  await appendLines(runFiles(location).notes, [whole])
  return whole
}

export async function readVerdicts(location: string): Promise<AuditVerdict[]> {
  return (await readAll(runFiles(location).verdicts)) as AuditVerdict[]
}

export async function appendVerdicts(
  location: string,
  verdicts: readonly Omit<AuditVerdict, 'at'>[],
): Promise<void> {
  const at = new Date().toISOString()
  const whole = verdicts.map((verdict) => ({ ...verdict, at }))
  await appendLines(runFiles(location).verdicts, whole)
}

export async function gradingNames(location: string): Promise<string[]> {
  const { grades } = runFiles(location)
  if (!existsSync(grades)) return []
  const names = (await readdir(grades)).flatMap((file) => /^(.+)\.jsonl$/.exec(file)?.[1] ?? [])
  return names.toSorted()
}

export async function readGrades(location: string, grading: string): Promise<Map<string, Grade>> {
  const grades = (await readAll(gradesFile(location, grading))) as Grade[]
  return new Map(grades.map((grade) => [itemKey(grade), grade]))
}

export async function appendGrades(
  location: string,
  grading: string,
  grades: readonly Grade[],
): Promise<void> {
  const file = gradesFile(location, grading)
  try {
    await mkdir(path.dirname(file), { recursive: true, mode: folderMode })
  } catch (cause) {
    throw await storageError(file, cause)
  }
  await appendLines(file, grades)
}

/** Replaces all grades at once: readers see either the old or the new ones. */
export async function replaceGrades(
  location: string,
  grading: string,
  grades: readonly Grade[],
): Promise<void> {
  const file = gradesFile(location, grading)
  const text = grades.map((grade) => `${JSON.stringify(grade)}\n`).join('')
  try {
    await mkdir(path.dirname(file), { recursive: true, mode: folderMode })
    await writeFileAtomically(file, text, { mode: fileMode })
  } catch (cause) {
    throw await storageError(file, cause)
  }
}

function gradesFile(location: string, grading: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$/.test(grading)) {
    return path.join(runFiles(location).grades, `${grading}.jsonl`)
  }
  throw new OsmosisError(
    'invalid_config',
    `The name of a grading has up to 96 letters, digits, '.', '_' and '-' and starts with a letter or digit, got '${grading}'.`,
  )
}

async function readAll(file: string): Promise<unknown[]> {
  if (!existsSync(file)) return []
  const values: unknown[] = []
  for await (const lines of readLines(file)) {
    for (const { text } of lines) {
      try {
        values.push(JSON.parse(text))
      } catch {
        // Truncated by a crash before the write was acknowledged: see `appendLines`.
      }
    }
  }
  return values
}

/** Several processes may append concurrently: each writes its lines at once. */
async function appendLines(file: string, values: readonly unknown[]): Promise<void> {
  const text = values.map((value) => `${JSON.stringify(value)}\n`).join('')
  try {
    const handle = await open(file, 'a+', fileMode)
    try {
      const { size } = await handle.stat()
      const last = Buffer.alloc(1)
      if (size > 0) await handle.read(last, 0, 1, size - 1)
      // The last line may have been truncated by a crash or a full disk.
      const isTorn = size > 0 && last.toString() !== '\n'
      const bytes = Buffer.from(isTorn ? `\n${text}` : text)
      // `appendFile` would write many lines in pieces, between which those of other processes could come.
      for (let written = 0; written < bytes.length;) {
        written += (await handle.write(bytes, written)).bytesWritten
      }
      await handle.datasync()
    } finally {
      await handle.close()
    }
  } catch (cause) {
    throw await storageError(file, cause)
  }
}
