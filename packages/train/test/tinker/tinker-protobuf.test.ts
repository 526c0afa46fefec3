import { expect, it, onTestFinished } from 'vitest'

import { FakeTinker } from '../../../../test/kit/index.ts'
import { TinkerClient } from '../../src/tinker/service/tinker-client.ts'
import type { ForwardBackward } from '../../src/tinker/service/tinker-data.ts'
import {
  decodeForwardBackward,
  decodeSample,
  encodeForwardBackward,
} from '../../src/tinker/service/tinker-protobuf.ts'

function tensor(data: readonly number[], dtype: 'int64' | 'float32') {
  return { data, dtype, shape: [data.length] }
}

// The bytes below were written by the generated messages of the official SDK, version 0.25, from the same values.

const request: ForwardBackward = {
  model_id: 'model_1',
  seq_id: 300,
  forward_backward_input: {
    data: [
      {
        model_input: { chunks: [{ type: 'encoded_text', tokens: [2, 151_643] }] },
        loss_fn_inputs: {
          advantages: tensor([0, 0.25], 'float32'),
          logprobs: tensor([0, -1.5], 'float32'),
          target_tokens: tensor([151_643, 7], 'int64'),
        },
      },
      {
        model_input: { chunks: [{ type: 'encoded_text', tokens: [1] }] },
        loss_fn_inputs: { target_tokens: tensor([3], 'int64') },
      },
    ],
    loss_fn: 'ppo',
    loss_fn_config: { clip_high_threshold: 1.28, clip_low_threshold: 0.8 },
  },
}

const requestBytes =
  '0a076d6f64656c5f3110ac021a740a0c0a0a0a08020000005b500200121d0a0a616476616e7461676573120f0a08000000000000803e1801220102121b0a086c6f6770726f6273120f0a08000000000000c0bf180122010212280a0d7461726765745f746f6b656e7312170a105b50020000000000070000000000000018022201021a2c0a080a060a040100000012200a0d7461726765745f746f6b656e73120f0a0803000000000000001802220101220370706f2a1e0a13636c69705f686967685f7468726573686f6c64117b14ae47e17af43f2a1d0a12636c69705f6c6f775f7468726573686f6c64119a9999999999e93f'

/** Two tokens, with logprobs, and fields that are not read. */
const sampleBytes = '0a1608011208050000005b5002001a08000000bf000010c012040000c07f2003'
const sample = { sequences: [{ tokens: [5, 151_643], logprobs: [-0.5, -2.25] }] }

/** Logprobs of two sequences as float32 and of one as bfloat16, another tensor, and a metric. */
const forwardBytes =
  '0a0d613a41727261795265636f7264126e0a017812360a086c6f6770726f6273122a0a0c0000c0bf000080be000040c01218000000000000000008000000000000000c000000000000001801122f0a056f7468657212260a080100000000000000121800000000000000000800000000000000080000000000000018021802122b12270a086c6f6770726f6273121b0a02c0bf121000000000000000000200000000000000180422010118011a130a086c6f73733a73756d11000000000000f83f'

it('writes updates, and reads samples and logprobs, as the official SDK does', () => {
  expect(encodeForwardBackward(request).toString('hex')).toBe(requestBytes)
  expect(decodeSample(Buffer.from(sampleBytes, 'hex'))).toEqual(sample)
  expect(decodeForwardBackward(Buffer.from(forwardBytes, 'hex'))).toEqual({
    loss_fn_outputs: [[-1.5, -0.25], [-3], [-1.5]].map((data) => ({ logprobs: { data } })),
  })
  expect(() => decodeSample(Buffer.from(sampleBytes.slice(0, 20), 'hex'))).toThrow(RangeError)
})

it('speaks protobuf for updates and samples to a service that refuses their JSON', async () => {
  await using service = await new FakeTinker().start()
  const client = new TinkerClient({ url: service.url })
  onTestFinished(async () => client.close())
  const headers = { 'content-type': 'application/x-protobuf' }
  const future = { body: { request_id: '7' } }
  service.next('forward_backward', { status: 415 }, future).next('asample', future)
  // Failures are JSON.
  service.next('retrieve_future', { body: { error: 'too long', category: 'user' } })
  await expect(client.call('forward_backward', { ...request })).rejects.toThrow('too long')
  service.next('retrieve_future', { bytes: Buffer.from(sampleBytes, 'hex'), headers })
  expect(await client.call('asample', { seq_id: 1 })).toEqual(sample)
  await client.call('create_model', {})
  const formats = service.requests.map(({ route, headers: sent }) => [
    route,
    sent['content-type'],
    sent.accept,
  ])
  const [json, protobuf] = ['application/json', 'application/x-protobuf']
  expect(formats).toEqual([
    ['forward_backward', json, json],
    ['forward_backward', protobuf, json],
    ['retrieve_future', json, protobuf],
    ['asample', json, json],
    ['retrieve_future', json, protobuf],
    ['create_model', json, json],
    ['retrieve_future', json, json],
  ])
  expect(service.requests[1]?.bytes.toString('hex')).toBe(requestBytes)
})
