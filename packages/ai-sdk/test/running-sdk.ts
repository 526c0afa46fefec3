import { readFileSync } from 'node:fs'

import { inject } from 'vitest'

declare module 'vitest' {
  interface ProvidedContext {
    /** Name under which the SDK that these tests run on is installed. */
    sdkPackage: string
  }
}

/** The SDK that these tests run on. */
const sdkPackage = inject('sdkPackage')

/** Its version. */
export const sdkVersion = versionOf(sdkPackage)

/** False on the oldest version that the package supports. */
export const isNewestSdk = sdkPackage === 'ai'

/** Version of an installed package. */
export function versionOf(name: string): string {
  return (readJson(`../node_modules/${name}/package.json`) as { version: string }).version
}

/** A JSON file, by its path from this folder. */
export function readJson(path: string): unknown {
  return JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'))
}
