import { expect, it, onTestFinished } from 'vitest'

import { PlatformStandIn, temporaryFolder } from '../../../../test/kit/index.ts'
import { Storage } from '../../src/platform/files/storage.ts'
import { uploadDataset } from '../../src/platform/files/upload-dataset.ts'
import { clientOf } from './on-platform.ts'

const content = 'x'.repeat(250)

/** Uploads a file to a platform; with `stop` somebody interrupts it at its first part. */
async function upload(
  platform: PlatformStandIn,
  { stop }: { stop?: Error } = {},
): Promise<Record<string, unknown>> {
  const folder = await temporaryFolder({ 'rows.jsonl': content })
  const caller = new AbortController()
  const { signal } = caller
  const scope = { git: 'acme/lab' }
  const client = clientOf(platform, { token: 'standing-token', scope, signal })
  const storage = new Storage({ signal })
  onTestFinished(() => storage.close())
  const onProgress = (): void => {
    if (stop !== undefined) caller.abort(stop)
  }
  return uploadDataset(client, `${folder}/rows.jsonl`, { storage, signal, onProgress })
}

it('an upload that is interrupted is given up on the platform as well', async () => {
  const platform = await PlatformStandIn.start()
  platform.datasets.partSize = 100
  const stop = new Error('interrupted')
  await expect(upload(platform, { stop })).rejects.toBe(stop)
  expect(platform.datasets.aborted).toHaveLength(1)
})

it('nothing is sent when the parts do not hold the file', async () => {
  const platform = await PlatformStandIn.start()
  const part = (number: number): object => ({
    part_number: number,
    presigned_url: `${platform.url}/storage/dataset-9/${number}`,
  })
  const parts = { method: 'multipart', part_size: 100, presigned_urls: [part(1), part(2)] }
  platform.fail('POST datasets', { body: { id: 'dataset-9', upload: parts } })
  await expect(upload(platform)).rejects.toMatchObject({
    platformCode: 'PLATFORM_ERROR',
    message: 'The platform began an upload, but its parts hold 200 of 250 bytes.',
  })
  expect(platform.calls).toEqual(['POST datasets', 'POST datasets/dataset-9/abort'])
})
