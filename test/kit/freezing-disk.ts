// Loaded first into server processes of tests: a disk that freezes at a given step.
// A test that kills the process while the disk is frozen has killed it at exactly that step.
import fs, { type FileHandle } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

/** Steps until the disk freezes. */
let stepsLeft = Number.POSITIVE_INFINITY
const never = new Promise<never>(() => undefined)

process.on('message', (steps: number) => {
  stepsLeft = steps
})
// A channel with a listener would keep the process alive when it has nothing else to do.
process.channel?.unref()

async function step<T>(
  name: string,
  act: () => Promise<T>,
  half?: () => Promise<unknown>,
): Promise<T> {
  if (stepsLeft > 0) {
    stepsLeft -= 1
    return act()
  }
  if (stepsLeft === 0) {
    stepsLeft = -1
    // A write may be incomplete when its process is killed.
    await half?.()
    process.send?.(name)
  }
  return never
}

const { open, rename, rm } = fs
const handle = await open(import.meta.filename)
const prototype = Object.getPrototypeOf(handle) as FileHandle
await handle.close()
// oxlint-disable-next-line typescript/unbound-method -- called for each handle, below
const { write, writeFile, truncate, sync, datasync } = prototype

Object.assign(fs, {
  open: async (...args: Parameters<typeof open>) => {
    const act = async (): Promise<FileHandle> => open(...args)
    return args[1] === 'r' || args[1] === undefined ? act() : step('open', act)
  },
  rename: async (...args: Parameters<typeof rename>) => step('rename', async () => rename(...args)),
  rm: async (...args: Parameters<typeof rm>) => step('rm', async () => rm(...args)),
})
syncBuiltinESMExports()
Object.assign(prototype, {
  async writeFile(this: FileHandle, text: string) {
    const writePart = async (part: string): Promise<void> => writeFile.call(this, part)
    return step(
      'write',
      async () => writePart(text),
      async () => writePart(text.slice(0, text.length / 2)),
    )
  },
  async write(this: FileHandle, ...args: Parameters<typeof write>) {
    return step('write', async () => write.apply(this, args))
  },
  async truncate(this: FileHandle, length?: number) {
    return step('truncate', async () => truncate.call(this, length))
  },
  async sync(this: FileHandle) {
    return step('sync', async () => sync.call(this))
  },
  async datasync(this: FileHandle) {
    return step('datasync', async () => datasync.call(this))
  },
})
