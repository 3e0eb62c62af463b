// Package deploy builds vmdisk's images and installs vmdisk in a cluster: whole, with the images, in the lab, and only
// the kinds and objects in an API server that a test started. It must not know what vmdisk does.
package deploy
