import { closeSync, fstatSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import path from 'node:path'

import { z } from 'zod'

const ownerSchema = z.object({
  /** Both values have the same length, because the file is overwritten in place. */
  state: z.enum(['held', 'free']),
  id: z.uuid(),
  host: z.string(),
  pid: z.number(),
  started_at: z.string(),
  /** Identifies the local sockets that the owner can see; null: unknown. */
  namespace: z.string().nullable(),
  /** What its local socket is named after. */
  socket: z.string(),
})

/** The content of an owner file. */
export type Owner = z.output<typeof ownerSchema>

export interface OwnerState {
  /** Undefined when the content cannot be parsed. */
  readonly owner: Owner | undefined
  /** Changes with each heartbeat. */
  readonly heartbeat: string
  readonly modifiedMs: number
}

const ownerFileName = /^owner-(\d{8,})\.lock$/

/** Numbers of the owner files, the highest first. */
export function ownerNumbers(folder: string): number[] {
  const names = unlessMissing(() => readdirSync(folder)) ?? []
  const numbers = names.map((name) => Number(ownerFileName.exec(name)?.[1]))
  return numbers.filter((number) => !Number.isNaN(number)).toSorted((a, b) => b - a)
}

export function ownerFile(folder: string, number: number): string {
  return path.join(folder, `owner-${String(number).padStart(8, '0')}.lock`)
}

/** Undefined when there is no such file. */
export function readOwner(file: string): OwnerState | undefined {
  return unlessMissing(() => {
    const fd = openSync(file, 'r')
    try {
      const { mtimeMs } = fstatSync(fd)
      const text = readFileSync(fd, 'utf8')
      return { owner: parseOwner(text), heartbeat: `${mtimeMs} ${text}`, modifiedMs: mtimeMs }
    } finally {
      closeSync(fd)
    }
  })
}

function parseOwner(text: string): Owner | undefined {
  try {
    return ownerSchema.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** Undefined when there is no such file. */
export function readText(file: string): string | undefined {
  return unlessMissing(() => readFileSync(file, 'utf8'))
}

export function overwrite(file: string, text: string): void {
  const fd = openSync(file, 'r+')
  try {
    writeSync(fd, text, 0)
  } finally {
    closeSync(fd)
  }
}

function unlessMissing<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    // A network disk reports ESTALE for a file that another machine has removed.
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESTALE') return undefined
    throw error
  }
}
