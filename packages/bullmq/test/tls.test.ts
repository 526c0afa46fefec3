import type { QueueConnectionOptions } from '@osmosis/bullmq'
import { expect } from 'vitest'

import {
  readCertificates,
  startRedis,
  tlsCertificates,
  withPrograms,
} from '../../../test/kit/index.ts'
import { RolloutQueue } from '../src/queue/rollout-queue.ts'

withPrograms('redis-server', 'openssl').it(
  'a Redis with TLS asks for its scheme, its authority and the certificate of the client',
  async () => {
    const tls = await tlsCertificates()
    const { url } = await startRedis({ aof: true, tls })
    const { ca, cert, key } = readCertificates(tls)
    const open = async (options: QueueConnectionOptions): Promise<readonly string[]> => {
      const queue = await RolloutQueue.open(options)
      await queue.close()
      return queue.warnings
    }
    await expect(open({ url: url.replace('rediss:', 'redis:') })).rejects.toThrow(
      /^The Redis of the queue at redis:\S+ does not answer: it closes the connection\. The address of a Redis with TLS begins with rediss:\/\/\.$/,
    )
    await expect(open({ url })).rejects.toThrow(/does not answer: .*NODE_EXTRA_CA_CERTS/)
    await expect(open({ url, tls: { ca } })).rejects.toThrow(/does not answer: .*certificate/)
    expect(await open({ url, tls: { ca, cert, key } })).toEqual([])
  },
)
