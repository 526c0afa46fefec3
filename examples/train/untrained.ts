// The policy before its training.
import { TinyPolicy } from '../../test/kit/trainers/index.ts'

export const policy = new TinyPolicy({ seed: 1 })
