import { closeSync, fstatSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import path from 'node:path'

import { z } from 'zod'

const ownerSchema = z.object({
  /** Free: its owner has let it go. Both words have the same length, so that it is overwritten in place. */
  state: z.enum(['held', 'free']),
  id: z.uuid(),
  host: z.string(),
  pid: z.number(),
  /** Whose local sockets the owner sees; null: nobody knows. */
  namespace: z.string().nullable(),
  /** As the owner names the folder: what its local socket is called after. */
  folder: z.string(),
})

/** What the owner of a folder says of itself. */
export type Owner = z.output<typeof ownerSchema>

/** What others see of an owner. */
export interface OwnerState {
  readonly owner: Owner | undefined
  /** Another one each time that it shows that it lives. */
  readonly mark: string
}

const fileName = /^owner-(\d{8,})\.lock$/

/** Numbers of the files that say who owns a folder, the highest first. */
export function numbersIn(folder: string): number[] {
  const names = unlessGone(() => readdirSync(folder)) ?? []
  const numbers = names.map((name) => Number(fileName.exec(name)?.[1]))
  return numbers.filter((number) => !Number.isNaN(number)).toSorted((a, b) => b - a)
}

/** Where the file with a number is. */
export function fileIn(folder: string, number: number): string {
  return path.join(folder, `owner-${String(number).padStart(8, '0')}.lock`)
}

/** What an owner shows; undefined when there is no such file. */
export function lookAt(file: string): OwnerState | undefined {
  return unlessGone(() => {
    const fd = openSync(file, 'r')
    try {
      const { mtimeMs } = fstatSync(fd)
      const text = readFileSync(fd, 'utf8')
      return { owner: toOwner(text), mark: `${mtimeMs} ${text}` }
    } finally {
      closeSync(fd)
    }
  })
}

function toOwner(text: string): Owner | undefined {
  try {
    return ownerSchema.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** Undefined when there is no such file. */
export function textOf(file: string): string | undefined {
  return unlessGone(() => readFileSync(file, 'utf8'))
}

/** What a full disk does not take is left out: the file is there, which is what counts. */
export function overwrite(file: string, text: string): void {
  try {
    const fd = openSync(file, 'r+')
    try {
      writeSync(fd, text, 0)
    } finally {
      closeSync(fd)
    }
  } catch {
    // See above.
  }
}

function unlessGone<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (error) {
    // The latter on a network disk, of a file that another machine has removed.
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESTALE') return undefined
    throw error
  }
}

/** Who that is, for people. */
export function nameOf(owner: Owner | undefined): string {
  if (owner === undefined) return 'Another server'
  return `Another server (process ${owner.pid} on host ${owner.host})`
}
