import path from 'node:path'

/** The file to which a training writes the policy. */
export const policyFile = path.resolve(import.meta.dirname, '../.osmosis/train/policy.json')
