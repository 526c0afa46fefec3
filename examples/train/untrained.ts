// The policy before its training.
import { TinyPolicy } from '@osmosis/testing/kit/trainers'

export const policy = new TinyPolicy({ seed: 1 })
