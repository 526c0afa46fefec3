import { readdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

import { expect, it, onTestFinished } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { Storage } from '../../src/platform/files/storage.ts'

/** A storage that answers with one status after the other, and then with `whole`. */
async function storageOf(
  answers: { status: number; location?: string }[],
): Promise<{ url: string; storage: Storage; pauses: number[]; asked: string[] }> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    request.resume()
    asked.push(`${request.method} ${request.url}`)
    const { status, location } = answers.shift() ?? { status: 200 }
    response.writeHead(status, location === undefined ? {} : { location }).end('whole')
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const pauses: number[] = []
  const storage = new Storage({
    signal: new AbortController().signal,
    pause: async (ms) => {
      pauses.push(ms)
    },
  })
  onTestFinished(async () => {
    await storage.close()
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/file`
  return { url, storage, pauses, asked }
}

it('follows redirects to a file that is there when it is whole', async () => {
  const { url, storage } = await storageOf([
    { status: 302, location: '/other' },
    { status: 307, location: '/third' },
  ])
  const folder = await temporaryFolder()
  await storage.download(url, `${folder}/file`, 5)
  expect(await readFile(`${folder}/file`, 'utf8')).toBe('whole')
  expect(await readdir(folder)).toEqual(['file'])
})

it('downloads to a name that is as long as names can be', async () => {
  const { url, storage } = await storageOf([])
  const name = 'a'.repeat(255)
  const folder = await temporaryFolder()
  await storage.download(url, `${folder}/${name}`, 5)
  expect(await readdir(folder)).toEqual([name])
})

it('follows up to twenty redirects', async () => {
  const answers = Array.from({ length: 20 }, () => ({ status: 302, location: '/on' }))
  const { url, storage, asked } = await storageOf(answers)
  const folder = await temporaryFolder()
  await storage.download(url, `${folder}/file`, 5)
  expect(asked).toHaveLength(21)
})

it.each<[string, { status: number; location?: string }[], number | undefined, string]>([
  [
    'a redirect without https',
    [{ status: 302, location: 'http://storage.example/x' }],
    undefined,
    'The platform named a storage without https.',
  ],
  [
    'redirects without an end',
    Array.from({ length: 30 }, () => ({ status: 302, location: '/' })),
    undefined,
    'The storage redirects too often.',
  ],
  ['another size than was said', [], 6, 'should have 6 bytes, but 5 were received.'],
  ['a refusal', [{ status: 404 }], undefined, 'answered 404.'],
])('%s leaves no file', async (_, answers, size, message) => {
  const { url, storage, asked } = await storageOf(answers)
  const folder = await temporaryFolder()
  await expect(storage.download(url, `${folder}/file`, size)).rejects.toMatchObject({
    platformCode: 'PLATFORM_ERROR',
    message: expect.stringContaining(message),
  })
  expect(await readdir(folder)).toEqual([])
  expect(asked.length).toBeLessThanOrEqual(21)
})

it('uploads up to five times, with longer pauses each time', async () => {
  const { url, storage, pauses, asked } = await storageOf(
    [429, 500, 502, 503, 504].map((status) => ({ status })),
  )
  const folder = await temporaryFolder({ file: 'content' })
  const piece = { file: `${folder}/file`, start: 2, size: 3 }
  await expect(storage.put(`${url}?planted`, piece, { timeoutMs: 10_000 })).rejects.toMatchObject({
    message: expect.not.stringContaining('planted'),
    status: 504,
  })
  expect([pauses, asked.length]).toEqual([[1000, 2000, 4000, 8000], 5])
})

it('says when it is the file that cannot be read, and tries it once', async () => {
  const { url, storage, pauses, asked } = await storageOf([])
  const piece = { file: `${await temporaryFolder()}/removed`, start: 0, size: 3 }
  await expect(storage.put(url, piece, { timeoutMs: 10_000 })).rejects.toMatchObject({
    code: 'invalid_dataset',
    message: expect.stringMatching(/removed cannot be read: ENOENT/),
  })
  expect([pauses, asked]).toEqual([[], []])
})

it('sends nothing unencrypted to another machine', async () => {
  const { storage } = await storageOf([])
  const piece = { file: 'nothing', start: 0, size: 0 }
  await expect(
    storage.put('http://storage.example/x', piece, { timeoutMs: 1000 }),
  ).rejects.toMatchObject({ message: 'The platform named a storage without https.' })
})
