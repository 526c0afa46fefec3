import assert from 'node:assert/strict'
import { test } from 'node:test'

import { rewardOf } from './reward.ts'

test('the right total gets a reward, however it is written', () => {
  assert.equal(rewardOf('Together they cost:\n#### 13.50', '13.50'), 1)
  assert.equal(rewardOf('#### 13.5', '13.50'), 1)
  assert.equal(rewardOf('#### 12\nNo, I forgot the pencils.\n#### 13.50', '13.50'), 1)
})

test('another total, no total and a row without an answer get none', () => {
  assert.equal(rewardOf('#### 13.60', '13.50'), 0)
  assert.equal(rewardOf('They cost 13.50.', '13.50'), 0)
  assert.equal(rewardOf('#### 13.50', null), 0)
})
