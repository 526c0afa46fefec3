// The policy after the last training.
import { readFileSync } from 'node:fs'

import { TinyPolicy, type SavedTinyPolicy } from '../../test/kit/trainers/index.ts'
import { policyFile } from './policy-file.ts'

export const policy = TinyPolicy.from(
  JSON.parse(readFileSync(policyFile, 'utf8')) as SavedTinyPolicy,
)
